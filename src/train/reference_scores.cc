#include "train/reference_scores.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_version.h"
#include "base/index.h"
#include "base/log.h"
#include "base/math.h"
#include "base/sizes.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/safetensors_writer.h"
#include "job/reference.h"
#include "model/layout.h"
#include "model/weights.h"
#include "saved/base_identity.h"
#include "saved/run_settings.h"
#include "train/held_group.h"
#include "train/rank_text.h"
#include "train/step_feed.h"

namespace spillway::train {
namespace {

namespace fs = std::filesystem;

// The rows of one set, and where their scores go.
struct ScoredRows {
  std::string_view name;
  const data::RowTable& rows;
  data::BatchOptions batches;
  ReferenceScores& scores;

  [[nodiscard]] std::string tensor(std::string_view score) const { return fmt::format("{}.{}", name, score); }
};

std::vector<ScoredRows> scored_rows(const Job& job, TrainingData& data) {
  std::vector<ScoredRows> all = {{"training", data.training, job.config.data.batches, data.training_scores}};
  if (!data.validation.empty())
    all.push_back({"validation", data.validation, job.config.data.evaluation_batches, data.validation_scores});
  for (ScoredRows& one : all) {
    one.batches.order = data::RowOrder::kFile;
    one.batches.drops_last = false;  // another epoch leaves out others
  }
  return all;
}

std::vector<std::string_view> score_names(const Objective& objective) {
  std::vector<std::string_view> names;
  for (const ScorePass& pass : objective.passes()) {
    if (pass.by == ScoredBy::kReference) names.insert(names.end(), pass.scores.begin(), pass.scores.end());
  }
  return names;
}

// Returns the versions of the folder's files; samples of their content alone may miss a change.
std::string versions_of(const SafetensorsFolder& folder) {
  std::set<std::filesystem::path> files;
  for (const auto& [name, entry] : folder.tensors()) files.insert(entry.file->path());
  std::string text;
  for (const std::filesystem::path& file : files) {
    const auto [bytes, modified, status_changed] = file_version(file);
    text += fmt::format("{} {} {} ", bytes, modified, status_changed);
  }
  return text;
}

// Returns the checksum of all tensors, in the order of their names.
std::string content_of(const SafetensorsFolder& folder) {
  Checksum sum;
  std::vector<std::byte> bytes;
  for (const auto& [name, entry] : folder.tensors()) {
    resize(bytes, entry.tensor->bytes);
    entry.file->read_bytes(*entry.tensor, 0, bytes);
    sum.add(bytes);
  }
  return sum.text();
}

// Returns a hash of everything that the scores depend on.
std::string identity_of(const Job& job, const TrainingData& data, const SafetensorsFolder& reference) {
  std::string text;
  const auto add = [&](std::string_view name, std::string_view value) { text += fmt::format("{}: {}\n", name, value); };
  for (const auto& [name, content] : identify_base(reference)) add(name, content);
  add("versions", versions_of(reference));
  const ModelPtr& other = job.graph.reference.other;
  add("config.json", (other ? other : job.model)->config_json(reference_folder(job.config)));
  if (!other && job.config.adapter && !job.config.adapter->model_dir.empty())
    add("adapter", content_of(open_adapter(job.config.adapter->model_dir)));
  for (const auto& [name, value] : forward_settings_of(job)) add(name, value);
  const config::PreferenceSettings& preference = *job.config.preference;
  add("rl", preference.name);
  if (preference.ld_alpha) add("ld_alpha", fmt::format("{}", *preference.ld_alpha));
  add("sequence_len", fmt::format("{}", job.config.batches.sequence_len));
  // Rows of further streams depend on the other rows of a micro-batch.
  if (job.graph.objective->streams() > 1)
    add("micro_batch_size", fmt::format("{}", job.config.batches.micro_batch_size));
  add("training", data.training.checksum());
  add("validation", data.validation.empty() ? "" : data.validation.checksum());
  for (const std::string_view name : score_names(*job.graph.objective)) add("score", name);
  return text;
}

// Scores micro-batches, each rank as many at a time as its plan computes together. Returns how many tokens the
// reference has read.
int64_t score(const Job& job, const PlannedJob& planned, TrainingSession& session, Ranks& ranks, const ScoredRows& rows,
              const std::function<void(int64_t rows)>& progress) {
  rows.scores.columns.clear();
  for (const std::string_view name : score_names(*job.graph.objective))
    rows.scores.columns.push_back({name, make_vector<float>(rows.rows.all_rows())});
  StreamFiller filler(job.graph.objective, planned.find(JobProgram::Kind::kScoring)->graph.tokens());
  const data::EpochPlan plan = data::plan_epoch(rows.rows, rows.batches, 0);
  const int64_t together = planned.together(JobProgram::Kind::kScoring), all = plan.micro_batches();
  const auto end_of = [&](int64_t group) { return std::min((group + 1) * together, all); };
  HeldGroup held;
  int64_t tokens = 0;
  const auto scored = [&](int64_t group) {
    held.begin(together);
    int64_t read = 0;
    for (int64_t i = group * together; i < end_of(group); ++i) {
      held.add(filler.fill(rows.rows, plan.micro_batch(i), {}));
      for (const data::MicroBatch& stream : held[held.size() - 1]) read += stream.tokens();
    }
    session.score(held.views());
    TextWriter text;
    text.add(read);
    for (size_t i = 0; i < held.size(); ++i)
      for (const std::vector<double>& scores : session.scores(i)) text.add_list(scores);
    return text.take();
  };
  ranks.deal(div_ceil(all, together), job.config.ranks.context, scored, [&](int64_t group, std::string_view text) {
    TextReader reader(text);
    tokens += reader.take<int64_t>();
    for (int64_t i = group * together; i < end_of(group); ++i) {
      const std::span<const data::Piece> pieces = plan.micro_batch(i);
      for (ReferenceScores::Column& column : rows.scores.columns) {
        const std::vector<double> scores = reader.take_list<double>();
        for (size_t row = 0; row < pieces.size(); ++row)
          nth(column.values, rows.rows.number_of(pieces[row])) = static_cast<float>(scores[row]);
      }
      progress(std::ssize(pieces));
    }
  });
  return tokens;
}

std::string checksum_of(const std::vector<float>& scores) { return checksum_text(std::as_bytes(std::span(scores))); }

// Reads the scores of a tensor. Throws InputError if they are not those that were written.
std::vector<float> read_column(const SafetensorsFile& file, const std::string& name, int64_t rows) {
  const auto found = std::find_if(file.tensors().begin(), file.tensors().end(),
                                  [&](const StoredTensor& one) { return one.name == name; });
  if (found == file.tensors().end() || found->dtype() != DType::kF32 || found->elems() != rows)
    throw input_error(file.path().string(), "expected {} scores in {}, got others", rows, name);
  auto scores = make_vector<float>(rows);
  file.read(*found, 0, rows, DType::kF32, scores.data());
  const auto sum = file.metadata().find(name);
  if (sum == file.metadata().end() || sum->second != checksum_of(scores))
    throw input_error(file.path().string(), "expected the scores that were written in {}, got others", name);
  return scores;
}

// Returns false if the file is missing or incomplete.
bool read_scores(const fs::path& path, std::span<const ScoredRows> all, const Objective& objective) {
  if (!fs::exists(path)) return false;
  try {
    const SafetensorsFile file(path);
    for (const ScoredRows& rows : all) {
      rows.scores.columns.clear();
      for (const std::string_view name : score_names(objective))
        rows.scores.columns.push_back({name, read_column(file, rows.tensor(name), rows.rows.all_rows())});
    }
    return true;
  } catch (const InputError& error) {
    log_warning("{}; the reference scores all rows anew", error.what());
    return false;
  }
}

// Reads the file on rank 0, and gives the others the scores. Returns false if the file is missing or incomplete.
bool read_on_first(const fs::path& path, std::span<const ScoredRows> all, const Objective& objective, Ranks& ranks) {
  const std::string text = ranks.of_first([&] {
    TextWriter writer;
    writer.add(read_scores(path, all, objective));
    for (const ScoredRows& rows : all) {
      if (!ranks.are_several()) break;
      for (const ReferenceScores::Column& column : rows.scores.columns) writer.add_list(column.values);
    }
    return writer.take();
  });
  TextReader reader(text);
  if (!reader.take<bool>()) return false;
  if (ranks.is_first()) return true;
  for (const ScoredRows& rows : all) {
    rows.scores.columns.clear();
    for (const std::string_view name : score_names(objective))
      rows.scores.columns.push_back({name, reader.take_list<float>()});
  }
  return true;
}

void write(const fs::path& path, std::span<const ScoredRows> all) {
  create_folders(path.parent_path());
  std::vector<TensorSpec> specs;
  std::map<std::string, std::string> metadata = default_metadata();
  for (const ScoredRows& rows : all) {
    for (const ReferenceScores::Column& column : rows.scores.columns) {
      specs.push_back({rows.tensor(column.name), DType::kF32, {std::ssize(column.values)}});
      metadata[specs.back().name] = checksum_of(column.values);
    }
  }
  SafetensorsWriter writer(path, specs, metadata);
  for (const ScoredRows& rows : all) {
    for (const ReferenceScores::Column& column : rows.scores.columns)
      writer.append(rows.tensor(column.name), column.values.data(), DType::kF32, std::ssize(column.values));
  }
  writer.commit();
}

fs::path path_of(const Job& job, const TrainingData& data, const SafetensorsFolder& reference) {
  const std::string text = identity_of(job, data, reference);
  const std::string& prepared = job.config.data.prepared_path;
  const fs::path folder = prepared.empty() ? job.config.output.output_dir : prepared;
  return folder / fmt::format("reference-{}.safetensors", checksum_text(std::as_bytes(std::span(text))));
}

}  // namespace

ReferenceScoresFile load_reference_scores(const Job& job, const PlannedJob& planned, const SafetensorsFolder& reference,
                                          TrainingSession& session, TrainingData& data, Ranks& ranks,
                                          const std::function<void(int64_t rows, int64_t of)>& progress) {
  ReferenceScoresFile file{path_of(job, data, reference)};
  const std::vector<ScoredRows> all = scored_rows(job, data);
  file.was_there = read_on_first(file.path, all, *job.graph.objective, ranks);
  if (file.was_there) return file;
  if (job.graph.reference.other)
    load_base_weights(planned.find(JobProgram::Kind::kScoring)->objective.copies, reference, session.scoring_store());
  const int64_t of = data.training.size() + data.validation.size();
  int64_t done = 0;
  const double begin = now_seconds();
  for (const ScoredRows& rows : all)
    file.tokens += score(job, planned, session, ranks, rows, [&](int64_t count) { progress(done += count, of); });
  file.seconds = now_seconds() - begin;
  ranks.first([&] { write(file.path, all); });
  return file;
}

}  // namespace spillway::train
