#include "job/training_data.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/local_time.h"
#include "base/log.h"
#include "base/parallel.h"
#include "data/files/dataset_files.h"
#include "data/prepared/identity.h"
#include "data/prepared/prepared_rows.h"
#include "job/data_warnings.h"
#include "job/vocabulary_growth.h"
#include "text/token_ids.h"
#include "text/tokenizer.h"
#include "text/tokenizer_differences.h"

namespace spillway::train {
namespace {

// Loads the model's tokenizer with the tokens that the config adds.
std::shared_ptr<const text::Tokenizer> load_tokenizer(const config::TokenizerSettings& settings) {
  check_named_tokens(settings);
  if (const std::string said = text::other_ids_in_transformers(settings.folder); !said.empty()) log_warning("{}", said);
  return std::make_shared<text::Tokenizer>(text::Tokenizer::load(settings.folder, settings.special_tokens));
}

void say_what_was_read(std::string_view key, const data::PreparedRows& rows) {
  const data::DatasetSummary& s = rows.dataset.summary;
  const auto& dropped = s.dropped;
  std::string more;
  if (s.dropped_rows() > 0) {
    more = fmt::format(", {} dropped ({} empty, {} too short, {} too long, {} without targets, {} duplicates)",
                       s.dropped_rows(), dropped.empty, dropped.too_short, dropped.too_long, dropped.no_targets,
                       dropped.duplicate);
  }
  if (s.truncated > 0) more += fmt::format(", {} truncated", s.truncated);
  if (!rows.folder.empty()) more += fmt::format("; {} {}", rows.reused ? "from" : "kept in", rows.folder.string());
  log_info("{}: {} rows, {} tokens{}", key, s.rows, s.tokens, more);
}

// Returns the config's options of rows, completed by the model's vocabulary and the clock.
data::RowOptions row_options(const data::DataSettings& settings, int64_t vocab_size,
                             const std::optional<std::tm>& now) {
  data::RowOptions options = settings.rows;
  options.vocabulary = vocab_size;
  options.now = now.value_or(local_now());
  return options;
}

// Returns true if packing considers all rows at once, rather than as many as a stream's buffer holds.
bool packs_all_rows(const data::BatchOptions& options) {
  if (!options.packing) return false;
  const bool is_axolotls =
      *options.packing == data::PackingStrategy::kFirstFit || *options.packing == data::PackingStrategy::kSequential;
  return is_axolotls || options.packing_scope_rows == 0;
}

// Rows in memory, or those of dataset_prepared_path; or a stream.
class RowLoader {
 public:
  RowLoader(const data::DataSettings& settings, const config::TokenizerSettings& tokenizer,
            const std::function<void(int64_t)>& progress)
      : settings_(settings),
        tokenizer_settings_(tokenizer),
        tokenizer_(load_tokenizer(tokenizer)),
        preparation_{static_cast<int>(settings.threads.value_or(available_cpus())), progress} {}

  [[nodiscard]] data::Dataset load(std::string_view key, const std::vector<data::DatasetConfig>& datasets,
                                   const data::RowOptions& options) const {
    const data::PreparedRows rows = prepare(datasets, options);
    say_what_was_read(key, rows);
    for (const std::string& warning : data_warnings(key, datasets, options, rows.dataset)) log_warning("{}", warning);
    return rows.dataset;
  }
  // REQUIRES: the settings have a stream.
  [[nodiscard]] std::shared_ptr<const data::StreamSource> open_stream(data::RowOptions options,
                                                                      int64_t vocab_size) const {
    const data::StreamSettings& settings = *settings_.stream;
    options.packing = settings_.batches.packing;
    options.pretrain_text = settings.pretrain_text;
    const bool joins = options.pretrain_text == data::PretrainText::kJoined;
    const bool in_map_batches = !joins && !packs_all_rows(settings_.batches);
    data::StreamOptions stream{
        .rows = options,
        .batches = settings_.batches,
        .shuffle = {.records = settings.shuffles ? settings.buffer_records : 0, .seed = settings_.batches.seed},
        .block_records = in_map_batches ? data::kMapBatchRows : settings.buffer_records,
        .threads = preparation_.threads};
    const bool shuffles_lines = options.packing && settings.shuffles;
    stream.batches.order = shuffles_lines ? data::RowOrder::kShuffled : data::RowOrder::kFile;
    stream.batches.shuffle_before_packing = false;
    stream.inspect = [vocab_size, folder = folder()](const data::RowTable& rows) {
      text::check_token_id(rows.largest_id(), vocab_size, folder);
    };
    return std::make_shared<data::StreamSource>(settings_.datasets, std::move(stream), tokenizer_);
  }
  // Returns the ends of answers that the first rows of a stream teach, and warns if these have answers and teach none.
  // Ignores data that cannot be read: the run will report it. REQUIRES: the settings have a stream.
  [[nodiscard]] std::vector<int32_t> ends_of_stream(const data::RowOptions& options) const {
    constexpr int64_t kRecords = 256;
    data::Dataset first;
    try {
      for (const data::DatasetConfig& dataset : settings_.datasets) {
        auto& answers = first.summary.answers.emplace_back();
        if (dataset.type.name == "pretrain" || dataset.type.name == "completion") continue;
        const auto one = data::summary_of_first(dataset, options, *tokenizer_, kRecords);
        first.summary.rows += one.rows;
        answers = one.answers.front();
        first.summary.ends.insert(one.ends.begin(), one.ends.end());
      }
    } catch (const InputError&) {
      return {};
    }
    for (const std::string& warning : data_warnings("datasets", settings_.datasets, options, first))
      log_warning("{}", warning);
    return {first.summary.ends.begin(), first.summary.ends.end()};
  }
  [[nodiscard]] const std::string& folder() const { return tokenizer_settings_.folder; }

 private:
  [[nodiscard]] data::PreparedRows prepare(const std::vector<data::DatasetConfig>& datasets,
                                           const data::RowOptions& options) const {
    if (settings_.prepared_path.empty())
      return {data::load_datasets(datasets, options, *tokenizer_, preparation_), {}, false};
    const std::string time = data::time_in_rows(datasets, options, *tokenizer_);
    return data::prepare_rows(
        settings_.prepared_path,
        data::rows_identity(datasets, options, folder(), tokenizer_settings_.special_tokens, time),
        data::schema_of(options.objective),
        [&](data::RowSink& sink) { return data::read_datasets(datasets, options, *tokenizer_, preparation_, sink); });
  }

  const data::DataSettings& settings_;
  const config::TokenizerSettings& tokenizer_settings_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  data::Preparation preparation_;
};

}  // namespace

void check_data_files(const data::DataSettings& settings) {
  for (const auto* datasets : {&settings.datasets, &settings.test_datasets}) {
    for (const data::DatasetConfig& dataset : *datasets) (void)data::dataset_files(dataset);
  }
}

TrainingData load_training_data(const data::DataSettings& settings, const config::TokenizerSettings& tokenizer,
                                int64_t vocab_size, const std::function<void(int64_t)>& progress,
                                const std::optional<std::tm>& now) {
  const RowLoader loader(settings, tokenizer, progress);
  data::RowOptions options = row_options(settings, vocab_size, now);
  const auto load = [&](std::string_view key, const std::vector<data::DatasetConfig>& datasets,
                        const data::BatchOptions& batches) {
    options.packing = batches.packing;
    data::Dataset dataset = loader.load(key, datasets, options);
    text::check_token_id(dataset.rows.largest_id(), vocab_size, loader.folder());
    return dataset;
  };
  TrainingData result;
  if (settings.stream) {
    result.stream = loader.open_stream(options, vocab_size);
    result.ends = loader.ends_of_stream(options);
  } else {
    data::Dataset training = load("datasets", settings.datasets, settings.batches);
    result.training = std::move(training.rows);
    result.training_summary = training.summary;
    result.ends.assign(training.summary.ends.begin(), training.summary.ends.end());
  }
  if (!settings.test_datasets.empty()) {
    if (settings.eval_sequence_len > 0) options.sequence_len = settings.eval_sequence_len;
    data::Dataset validation = load("test_datasets", settings.test_datasets, settings.evaluation_batches);
    result.validation = std::move(validation.rows);
    result.validation_summary = validation.summary;
  } else if (!settings.stream) {
    std::tie(result.training, result.validation) =
        data::split_validation(result.training, settings.val_set_size, settings.validation_seed);
    options.packing = settings.evaluation_batches.packing;
    if (!result.validation.empty()) {
      result.validation = data::rows_that_fit(result.validation, options);
      log_info("val_set_size: {} of these rows are for evaluation, {} for training", result.validation.size(),
               result.training.size());
    }
  }
  return result;
}

PreferenceData load_preference_data(const data::DataSettings& settings, const config::TokenizerSettings& tokenizer,
                                    int64_t vocab_size, const std::function<void(int64_t)>& progress) {
  const RowLoader loader(settings, tokenizer, progress);
  const data::RowOptions options = row_options(settings, vocab_size, {});
  const auto load = [&](std::string_view key, const std::vector<data::DatasetConfig>& datasets) {
    data::Dataset dataset = loader.load(key, datasets, options);
    text::check_token_id(dataset.rows.largest_id(), vocab_size, loader.folder());
    return dataset;
  };
  const data::Dataset training = load("datasets", settings.datasets);
  PreferenceData result{.training = {{}, training.summary}};
  if (settings.test_datasets.empty()) {
    const data::DatasetSummary& read = training.summary;
    if (settings.val_set_size > 0 && read.rows + read.dropped_rows() > read.rows_read)
      log_warning(
          "val_set_size takes rows after pairs have become two rows each: prompts of rows that evaluate are "
          "trained on, too; name the rows that evaluate in test_datasets");
    const auto [train, validation] =
        data::split_validation(training.rows, settings.val_set_size, settings.validation_seed);
    result.training.rows = data::preferences_of(train);
    result.validation.rows = data::preferences_of(validation);
    return result;
  }
  const data::Dataset validation = load("test_datasets", settings.test_datasets);
  result.training.rows = data::preferences_of(training.rows);
  result.validation = {data::preferences_of(validation.rows), validation.summary};
  // As axolotl does of preferences, and not of text.
  const int64_t known =
      settings.rows.deduplicate ? data::remove_known(result.training.rows, result.validation.rows) : 0;
  if (known > 0) log_info("dataset_exact_deduplication: {} rows of test_datasets are in datasets, too", known);
  return result;
}

}  // namespace spillway::train
