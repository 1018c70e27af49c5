#include "saved/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/checksum.h"
#include "io/file.h"
#include "job/initial_state.h"
#include "model/layout.h"
#include "model/weights.h"
#include "saved/saved_round.h"

namespace spillway::train {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr const char* kPositionFile = "spillway_state.json";
constexpr const char* kStateFile = "spillway_state.safetensors";
constexpr const char* kOnlyModel = "only_model";  // of the position: there is no state
constexpr int kVersion = 4;                       // of the two files; a later one is another program's
constexpr int kVersionWithoutChange = 3;          // of batches, in whose absence it is written
constexpr int kVersionWithoutSums = 1;
constexpr int64_t kMaxPositionBytes = int64_t{1} << 30;  // version 2 has all tokens of a round in it

// Returns the checksum of the whole JSON. REQUIRES: it does not contain the field for the checksum itself.
std::string sum_of(const Json& json) { return checksum_text(std::as_bytes(std::span<const char>(json_text(json)))); }

Json to_json(const FeedState& feed) {
  Json json = Json::object();
  if (feed.round) json["round"] = to_json(*feed.round);
  if (!feed.entropy.is_null()) json["entropy"] = feed.entropy;
  return json;
}

Json to_json(const TrainingPosition& position) {
  Json json = {{"version", position.change ? kVersion : kVersionWithoutChange},
               {"step", position.step},
               {"num_tokens", position.num_tokens},
               {"rows", position.rows},
               {"rows_checksum", position.rows_checksum},
               {"steps_per_epoch", position.steps_per_epoch}};
  if (!position.evaluation_checksum.empty()) json["evaluation_checksum"] = position.evaluation_checksum;
  if (const auto& stream = position.stream)
    json["stream"] = {{"epoch", stream->epoch},
                      {"block", stream->block},
                      {"line", stream->line},
                      {"rows_checksum", stream->rows_checksum},
                      {"options", position.stream_identity}};
  if (const auto& change = position.change)
    json["batch_change"] = {{"step", change->step},
                            {"epoch", change->epoch},
                            {"line", change->line},
                            {"order_lines", change->order_lines},
                            {"order_batches", change->order_batches}};
  if (Json feed = to_json(position.feed); !feed.empty()) json["feed"] = std::move(feed);
  json["run"] = to_json(position.run);
  json["settings"] = position.settings;
  json["base_model"] = position.base;
  if (position.merged.step > 0)
    json["merged_base"] = {{"step", position.merged.step}, {"weights", position.merged.weights}};
  if (position.reward_models) {
    Json& models = json["reward_models"] = Json::array();
    for (const RewardModelIdentity& one : *position.reward_models)
      models.push_back({{"folder", one.folder}, {"weights", one.weights}});
  }
  if (position.stopping) json["stopping"] = to_json(*position.stopping);
  if (position.is_evaluated) json["is_evaluated"] = *position.is_evaluated;
  return json;
}

TrainingPosition position_from_json(const Json& json) {
  TrainingPosition position{.step = json.at("step"),
                            .num_tokens = json.at("num_tokens"),
                            .rows = json.at("rows"),
                            .rows_checksum = json.value("rows_checksum", ""),
                            .evaluation_checksum = json.value("evaluation_checksum", ""),
                            .steps_per_epoch = json.at("steps_per_epoch")};
  if (json.contains("stream")) {
    const Json& stream = json["stream"];
    position.stream = {.epoch = stream.at("epoch"),
                       .block = stream.at("block"),
                       .line = stream.at("line"),
                       .rows_checksum = stream.value("rows_checksum", "")};
    position.stream_identity = stream.at("options");
  }
  if (json.contains("batch_change")) {
    const Json& change = json["batch_change"];
    position.change = {.step = change.at("step"),
                       .epoch = change.at("epoch"),
                       .line = change.at("line"),
                       .order_lines = change.at("order_lines"),
                       .order_batches = change.at("order_batches")};
  }
  if (json.contains("feed")) position.feed.entropy = json["feed"].value("entropy", Json());
  if (json.at("version") == kVersionWithoutSums) return position;
  position.run = run_from_json(json.at("run"));
  position.settings = settings_from_json(json.at("settings"));
  position.base = json.at("base_model").get<BaseIdentity>();
  if (json.contains("merged_base"))
    position.merged = {.step = json["merged_base"].at("step"),
                       .weights = json["merged_base"].at("weights").get<BaseIdentity>()};
  if (json.contains("reward_models")) {
    position.reward_models.emplace();
    for (const Json& one : json["reward_models"])
      position.reward_models->push_back({one.at("folder"), one.at("weights").get<BaseIdentity>()});
  }
  if (json.contains("stopping")) position.stopping = stopping_from_json(json["stopping"]);
  if (json.contains("is_evaluated")) position.is_evaluated = json["is_evaluated"].get<bool>();
  return position;
}

// Opens adapter_model.safetensors, or the model's files.
SafetensorsFolder weights_of(const fs::path& folder, const Job& job) {
  const Layout layout = layout_of(*job.model);
  if (job.graph.model.lora) return SafetensorsFolder(folder, adapter_stem(layout));
  const std::string component = component_name(job.config.model.base_model);
  return SafetensorsFolder(weights_folder(layout, folder, component), weights_stem(layout));
}

void verify(const SafetensorsFile& file, const StoredTensor& tensor, const std::string& expected) {
  constexpr int64_t kPieceBytes = kMiB;
  std::vector<std::byte> piece(kPieceBytes);
  Checksum sum;
  for (int64_t first = 0; first < tensor.bytes; first += kPieceBytes) {
    const std::span<std::byte> part = first_of(std::span(piece), std::min(kPieceBytes, tensor.bytes - first));
    file.read_bytes(tensor, first, part);
    sum.add(part);
  }
  if (sum.text() != expected) throw damaged_tensor(file.path().string(), tensor.name);
}

void verify(const SafetensorsFolder& weights, const TensorSums& sums) {
  for (const auto& [name, expected] : sums) {
    const auto found = weights.tensors().find(name);
    if (found == weights.tensors().end()) throw damaged_tensor((weights.path() / "*.safetensors").string(), name);
    verify(*found->second.file, *found->second.tensor, expected);
  }
}

// Steps count through the rows, so those of another data set would be seen twice or never.
void check_data(const std::string& path, const TrainingPosition& position, const TrainingPosition& expected) {
  if (position.stream.has_value() != expected.stream.has_value()) {
    throw input_error(path,
                      "expected a run that {} its rows, as in this config, got one that {} them; "
                      "resume with the config that wrote it",
                      expected.stream ? "streams" : "prepares", position.stream ? "streams" : "prepares");
  }
  if (position.stream_identity != expected.stream_identity) {
    throw input_error(path,
                      "expected the stream options that wrote it, got others; resume with the config that wrote it");
  }
  const data::StreamPosition stream = position.stream.value_or(data::StreamPosition());
  if (stream.epoch < 0 || stream.block < 0 || stream.line < 0)
    throw input_error(path, "expected a place in a stream, got one below 0; resume from another checkpoint");
  if (position.rows != expected.rows || position.steps_per_epoch != expected.steps_per_epoch || position.step < 0) {
    throw input_error(
        path,
        "expected {} rows, in epochs of {} steps of the checkpoint's size as in this config, got {} in {}; "
        "resume with the data and packing, in online training with the batches, too, that wrote it",
        expected.rows, expected.steps_per_epoch, position.rows, position.steps_per_epoch);
  }
  if (!position.rows_checksum.empty() && position.rows_checksum != expected.rows_checksum) {
    throw input_error(path,
                      "expected the rows of this config, got {} others; resume with the data, tokenizer and template "
                      "that wrote it, or begin a new run with this folder as base_model (lora_model_dir, if it is an "
                      "adapter)",
                      position.rows);
  }
}

// A run may be evaluated on other rows from here on, but what it compares does not say so.
void warn_of_evaluation(const std::string& path, const TrainingPosition& position, const TrainingPosition& expected) {
  const std::string &before = position.evaluation_checksum, &now = expected.evaluation_checksum;
  if (before.empty() || now.empty() || before == now) return;
  log_warning(
      "{}: the run was evaluated on other rows so far; its eval_loss from here on does not compare with those "
      "before, nor does the best of them (load_best_model_at_end, early stopping) mean anything: begin a new run for "
      "that",
      path);
}

// Rewards of another model would change the training.
void check_reward_models(const fs::path& checkpoint, const TrainingPosition& position,
                         const TrainingPosition& expected) {
  if (!position.reward_models || !expected.reward_models) return;
  const std::vector<RewardModelIdentity>&before = *position.reward_models, &now = *expected.reward_models;
  constexpr const char* kWhere = "reward_funcs";
  if (before.size() != now.size()) {
    throw input_error(kWhere,
                      "expected the {} reward models that {} was trained with, got {}; resume with those that the run "
                      "began with",
                      before.size(), checkpoint.string(), now.size());
  }
  for (size_t i = 0; i < now.size(); ++i) {
    const std::string other = difference(before[i].weights, now[i].weights);
    if (other.empty()) continue;
    throw input_error(
        kWhere,
        "expected the reward model that {} was trained with, {} then, got {} {}; resume with the one that "
        "the run began with",
        checkpoint.string(), quote(before[i].folder), quote(now[i].folder), other);
  }
}

// Loads the weights that an adapter which restarts was merged into so far.
void load_base_of(const CheckpointRecord& checkpoint, const Job& job, const TrainingGraph& training,
                  ValueStore& store) {
  const MergedBase& merged = checkpoint.position.merged;
  const SafetensorsFolder base = merged.step > 0 ? open_merged_base(checkpoint.folder / kMergedBase, job, merged)
                                                 : open_weights(job.config.model.base_model);
  load_merged_weights(training.model.parameters, base, store);
}

}  // namespace

std::optional<std::vector<RewardModelIdentity>> identify_reward_models(const Job& job) {
  if (job.kind->generation(job).at_once == 0) return {};
  std::vector<RewardModelIdentity> models;
  for (const ModelBeside& one : job.graph.beside)
    models.push_back({one.folder, identify_base(open_weights(one.folder))});
  return models;
}

fs::path save_checkpoint(const fs::path& output, const TrainingPosition& position, const ModelInTraining& model,
                         const TrainedFacts& facts, CheckpointContent content) {
  const fs::path path = output / fmt::format("{}{}", kPrefix, position.step);
  AtomicFolder folder(path, "train");
  Json json = to_json(position);
  ModelInTraining saved = model;
  if (position.merged.step > 0) {
    link_merged_base(model.merged_base, folder.path() / kMergedBase);
    saved.merged_base = path / kMergedBase;  // for its adapter_config.json
  }
  json["checksums"]["model"] = save_model(folder.path(), saved, facts);
  if (content == CheckpointContent::kModel) {
    json.erase("feed");
    json[kOnlyModel] = true;
  } else {
    json["checksums"]["state"] =
        save_optimizer_state(folder.path() / kStateFile, model.training, model.store, position.feed.round.get());
  }
  json["xxh3"] = sum_of(json);
  write_file(folder.path() / kPositionFile, json_text(json, 2) + "\n");
  folder.publish();
  return path;
}

void remove_old_checkpoints(const fs::path& output, const RunIdentity& run, int64_t limit, int64_t best) {
  if (limit == 0) return;
  std::vector<FoundCheckpoint> own;
  for (const FoundCheckpoint& found : find_checkpoints(output)) {
    try {
      const TrainingPosition position = read_checkpoint(found.folder).position;
      if (run.holds(position.run, position.step)) own.push_back(found);
    } catch (const InputError&) {
      // A checkpoint that cannot be read may not be ours to remove.
    }
  }
  int64_t left = std::ssize(own);
  for (size_t i = 0; i + 1 < own.size() && left > limit; ++i) {
    if (own[i].step == best) continue;
    try {
      remove_folder(own[i].folder);
      --left;
    } catch (const std::runtime_error& error) {  // it takes room, and that is all
      log_warning("{}; the run goes on", error.what());
    }
  }
}

std::vector<FoundCheckpoint> find_checkpoints(const fs::path& output) {
  std::vector<FoundCheckpoint> result;
  if (!fs::is_directory(output)) return result;
  for (const fs::directory_entry& entry : fs::directory_iterator(output)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !fs::is_regular_file(entry.path() / kPositionFile)) continue;
    int64_t step = 0;
    const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (error == std::errc() && end == name.data() + name.size()) result.push_back({step, entry.path()});
  }
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return result;
}

std::optional<CheckpointRecord> find_checkpoint(const fs::path& output, const RunIdentity& run, int64_t step) {
  for (const FoundCheckpoint& found : find_checkpoints(output)) {
    if (found.step != step) continue;
    try {
      CheckpointRecord record = read_checkpoint(found.folder);
      if (run.holds(record.position.run, step)) return record;
    } catch (const InputError&) {
      // A checkpoint that cannot be read counts as missing.
    }
  }
  return {};
}

CheckpointRecord read_checkpoint(const fs::path& folder) {
  const fs::path path = folder / kPositionFile;
  try {
    Json json = parse_json<Json>(read_file(path, kMaxPositionBytes), path.string());
    if (json.is_discarded())
      throw input_error(path.string(),
                        "expected JSON, got something else: the file is cut short or damaged; resume from another "
                        "checkpoint");
    const Json version = json.at("version");
    if (!version.is_number_integer() || version < kVersionWithoutSums || version > kVersion) {
      throw input_error(path.string(),
                        "expected a checkpoint of version {}, got {}; resume with the program that wrote it", kVersion,
                        version.dump());
    }
    CheckpointRecord record{.folder = folder, .position = position_from_json(json)};
    if (version != kVersionWithoutSums) {
      const Json expected_sum = json.at("xxh3");
      json.erase("xxh3");
      if (expected_sum != sum_of(json)) {
        throw input_error(path.string(),
                          "expected what was written, got something else; resume from another checkpoint");
      }
      record.model = json.at("checksums").at("model").get<TensorSums>();
      record.is_only_model = json.value(kOnlyModel, false);
      if (!record.is_only_model) record.state = json.at("checksums").at("state").get<TensorSums>();
    }
    if (json.contains("feed") && json["feed"].contains("round")) record.round = std::move(json["feed"]["round"]);
    return record;
  } catch (const nlohmann::json::exception&) {
    throw input_error(path.string(),
                      "expected the position of a run, got JSON without one; resume from another checkpoint");
  }
}

void check_checkpoint(const CheckpointRecord& checkpoint, const TrainingPosition& expected, int64_t total_steps) {
  const TrainingPosition& position = checkpoint.position;
  const std::string path = (checkpoint.folder / kPositionFile).string();
  check_data(path, position, expected);
  warn_of_evaluation(path, position, expected);
  const std::string other = position.base.empty() ? "" : difference(position.base, expected.base);
  if (!other.empty()) {
    throw input_error("base_model",
                      "expected the model that {} was trained on, got one {}; resume with the base_model that the run "
                      "began with",
                      checkpoint.folder.string(), other);
  }
  check_reward_models(checkpoint.folder, position, expected);
  if (position.step > total_steps) {
    throw input_error(
        "max_steps",
        "expected at least the {} steps that {} has done, got a run of {}; let it run longer, take what the "
        "checkpoint holds, or begin a new run",
        position.step, checkpoint.folder.string(), total_steps);
  }
  check_same_tensors(position.settings, expected.settings, checkpoint.folder.string());
  warn_of_changes(position.settings, expected.settings, checkpoint.folder.string());
}

void verify_checkpoint(const CheckpointRecord& checkpoint, const Job& job) {
  if (checkpoint.model) verify(weights_of(checkpoint.folder, job), *checkpoint.model);
  if (checkpoint.is_only_model) return;
  const SafetensorsFile state(checkpoint.folder / kStateFile);
  if (!checkpoint.state) return;
  TensorSums left = *checkpoint.state;
  for (const StoredTensor& tensor : state.tensors()) {
    if (const auto sum = left.extract(tensor.name)) verify(state, tensor, sum.mapped());
  }
  if (!left.empty()) throw damaged_tensor(state.path().string(), left.begin()->first);
}

std::shared_ptr<const Round> load_round(const CheckpointRecord& checkpoint) {
  if (checkpoint.round.is_null()) return nullptr;
  try {
    const SafetensorsFile state(checkpoint.folder / kStateFile);
    return std::make_shared<const Round>(
        round_from_json(checkpoint.round, state, checkpoint.state.value_or(TensorSums())));
  } catch (const nlohmann::json::exception&) {
    throw input_error((checkpoint.folder / kPositionFile).string(),
                      "expected the rounds of an online run, got something else; resume from another checkpoint");
  }
}

void load_checkpoint(const CheckpointRecord& checkpoint, const Job& job, const TrainingGraph& training,
                     ValueStore& store) {
  const SafetensorsFolder weights = weights_of(checkpoint.folder, job);
  if (checkpoint.model) verify(weights, *checkpoint.model);
  if (job.graph.model.lora && job.graph.model.lora->restarts) load_base_of(checkpoint, job, training, store);
  if (checkpoint.is_only_model) return load_trained_weights(weights, job, training, store);
  load_optimizer_state(checkpoint.folder / kStateFile, training, store,
                       checkpoint.state ? &*checkpoint.state : nullptr);
}

}  // namespace spillway::train
