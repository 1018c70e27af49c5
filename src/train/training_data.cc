#include "train/training_data.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/local_time.h"
#include "base/log.h"
#include "base/parallel.h"
#include "data/files/dataset_files.h"
#include "data/prepared/identity.h"
#include "data/prepared/prepared_rows.h"
#include "text/tokenizer.h"
#include "train/vocabulary_growth.h"

namespace spillway::train {
namespace {

bool packs(const config::Config& config) { return config.sample_packing || config.packing; }

data::PretrainText pretrain_text(const config::Config& config) {
  if (config.pretraining_dataset.empty() || packs(config)) return data::PretrainText::kWindows;
  return config.pretraining_sample_concatenation ? data::PretrainText::kJoined : data::PretrainText::kStarts;
}

data::RowOptions row_options(const config::Config& config, const ModelConfig& model,
                             const std::optional<std::tm>& now) {
  return {.objective = config::objective_of(config),
          .sequence_len = config.sequence_len,
          .length_rules = config.length_rules,
          .excess_length_strategy = config.excess_length_strategy,
          .truncation_mode = config.truncation_mode,
          .min_sample_len = config.min_sample_len,
          .max_prompt_length = config.max_prompt_length.value_or(0),
          .max_completion_length = config.max_completion_length.value_or(0),
          .train_on_inputs = config.train_on_inputs,
          .deduplicate = config.dataset_exact_deduplication,
          .completion_only_loss = config.completion_only_loss,
          .assistant_only_loss = config.assistant_only_loss,
          .dataset_text_field = config.dataset_text_field,
          .chat_template = config.chat_template,
          .chat_template_jinja = config.chat_template_jinja,
          .chat_template_kwargs = config.chat_template_kwargs,
          .eot_tokens = config.eot_tokens,
          .vocabulary = model.vocab_size,
          .now = now.value_or(local_now())};
}

// The model's, with the tokens that the config adds.
std::shared_ptr<const text::Tokenizer> load_tokenizer(const config::Config& config) {
  check_named_tokens(config);
  return std::make_shared<text::Tokenizer>(
      text::Tokenizer::load(config::tokenizer_folder(config), config.special_tokens));
}

// A tokenizer of another model may have ids that the embedding has no row for.
void check_largest(int32_t id, int64_t vocabulary, const std::string& tokenizer) {
  if (id < vocabulary) return;
  throw input_error(
      tokenizer,
      "expected token ids below the model's vocab_size {}, got {}; use the tokenizer that belongs to the model",
      vocabulary, id);
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

// Whether packing looks at as many rows as there are, or as a stream's buffer holds.
bool packs_all_rows(const config::Config& config) {
  return config.sample_packing || config.packing_scope == config::PackingScope::kDataset;
}

// By TRL's rules a stream keeps its order unless told otherwise.
bool shuffles_stream(const config::Config& config) {
  const bool in_order =
      config.curriculum_sampling || config.train_sampling_strategy == config::SamplingStrategy::kSequential;
  return !in_order && config.shuffle_merged_datasets.value_or(config.length_rules == data::LengthRules::kAxolotl);
}

// Rows in memory, or those of dataset_prepared_path; or a stream.
class RowLoader {
 public:
  RowLoader(const config::Config& config, const std::function<void(int64_t)>& progress)
      : config_(config),
        folder_(config::tokenizer_folder(config)),
        tokenizer_(load_tokenizer(config)),
        preparation_{static_cast<int>(config.dataset_processes.value_or(available_cpus())), progress} {}

  [[nodiscard]] data::Dataset load(std::string_view key, const std::vector<data::DatasetConfig>& datasets,
                                   const data::RowOptions& options) const {
    const data::PreparedRows rows = prepare(datasets, options);
    say_what_was_read(key, rows);
    return rows.dataset;
  }
  [[nodiscard]] std::shared_ptr<const data::StreamSource> open_stream(const data::RowOptions& options,
                                                                      const ModelConfig& model) const {
    const bool joins = options.pretrain_text == data::PretrainText::kJoined;
    const bool in_map_batches = !joins && (!options.packing || !packs_all_rows(config_));
    const int64_t buffer = config_.streaming_multipack_buffer_size;
    data::StreamOptions stream{
        .rows = options,
        .batches = batch_options(config_),
        .shuffle = {.records = shuffles_stream(config_) ? buffer : 0, .seed = static_cast<uint64_t>(config_.seed)},
        .block_records = in_map_batches ? data::kMapBatchRows : buffer,
        .threads = preparation_.threads};
    const bool shuffles_lines = options.packing && shuffles_stream(config_);
    stream.batches.order = shuffles_lines ? data::RowOrder::kShuffled : data::RowOrder::kFile;
    stream.batches.shuffle_before_packing = false;
    stream.inspect = [vocabulary = model.vocab_size, folder = folder_](const data::RowTable& rows) {
      check_largest(rows.largest_id(), vocabulary, folder);
    };
    return std::make_shared<data::StreamSource>(config_.datasets, std::move(stream), tokenizer_);
  }
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  [[nodiscard]] data::PreparedRows prepare(const std::vector<data::DatasetConfig>& datasets,
                                           const data::RowOptions& options) const {
    if (config_.dataset_prepared_path.empty())
      return {data::load_datasets(datasets, options, *tokenizer_, preparation_), {}, false};
    const std::string time = data::time_in_rows(datasets, options, *tokenizer_);
    return data::prepare_rows(
        config_.dataset_prepared_path, data::rows_identity(datasets, options, folder_, config_.special_tokens, time),
        [&](data::RowSink& sink) { return data::read_datasets(datasets, options, *tokenizer_, preparation_, sink); });
  }

  const config::Config& config_;
  std::string folder_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  data::Preparation preparation_;
};

// The strategy that a job packs with, if it packs.
data::PackingStrategy packing_strategy(const config::Config& config) {
  const bool trl = config.packing || (!config.sample_packing && config.length_rules == data::LengthRules::kTrl);
  if (trl) return config.packing_strategy;
  return config.sample_packing_sequentially ? data::PackingStrategy::kSequential : data::PackingStrategy::kFirstFit;
}

}  // namespace

void check_data_files(const config::Config& config) {
  for (const auto* datasets : {&config.datasets, &config.test_datasets}) {
    for (const data::DatasetConfig& dataset : *datasets) (void)data::dataset_files(dataset);
  }
}

TrainingData load_training_data(const config::Config& config, const ModelConfig& model,
                                const std::function<void(int64_t)>& progress, const std::optional<std::tm>& now) {
  const RowLoader loader(config, progress);
  data::RowOptions options = row_options(config, model, now);
  const auto load = [&](std::string_view key, const std::vector<data::DatasetConfig>& datasets,
                        const data::BatchOptions& batches) {
    options.packing = batches.packing;
    data::Dataset dataset = loader.load(key, datasets, options);
    check_largest(dataset.rows.largest_id(), model.vocab_size, loader.folder());
    return dataset;
  };
  TrainingData result;
  if (config.streaming) {
    data::RowOptions streamed = options;
    streamed.packing = batch_options(config).packing;
    streamed.pretrain_text = pretrain_text(config);
    result.stream = loader.open_stream(streamed, model);
  } else {
    data::Dataset training = load("datasets", config.datasets, batch_options(config));
    result.training = std::move(training.rows);
    result.training_summary = training.summary;
  }
  if (!config.test_datasets.empty()) {
    data::Dataset validation = load("test_datasets", config.test_datasets, evaluation_batch_options(config));
    result.validation = std::move(validation.rows);
    result.validation_summary = validation.summary;
  } else if (!config.streaming) {
    std::tie(result.training, result.validation) =
        data::split_validation(result.training, config.val_set_size, static_cast<uint64_t>(config.seed));
    options.packing = evaluation_batch_options(config).packing;
    if (!result.validation.empty()) result.validation = data::rows_that_fit(result.validation, options);
  }
  return result;
}

PreferenceData load_preference_data(const config::Config& config, const ModelConfig& model,
                                    const std::function<void(int64_t)>& progress) {
  const RowLoader loader(config, progress);
  const data::RowOptions options = row_options(config, model, {});
  const auto load = [&](std::string_view key, const std::vector<data::DatasetConfig>& datasets) {
    data::Dataset dataset = loader.load(key, datasets, options);
    check_largest(dataset.rows.largest_id(), model.vocab_size, loader.folder());
    return dataset;
  };
  const data::Dataset training = load("datasets", config.datasets);
  PreferenceData result{.training = {{}, training.summary}};
  if (config.test_datasets.empty()) {
    const auto [train, validation] =
        data::split_validation(training.rows, config.val_set_size, static_cast<uint64_t>(config.seed));
    result.training.rows = data::preferences_of(train, options.objective);
    result.validation.rows = data::preferences_of(validation, options.objective);
    return result;
  }
  const data::Dataset validation = load("test_datasets", config.test_datasets);
  result.training.rows = data::preferences_of(training.rows, options.objective);
  result.validation = {data::preferences_of(validation.rows, options.objective), validation.summary};
  return result;
}

data::BatchOptions batch_options(const config::Config& config) {
  const bool in_order =
      config.curriculum_sampling || config.train_sampling_strategy == config::SamplingStrategy::kSequential;
  const bool grouped =
      config.group_by_length || config.train_sampling_strategy == config::SamplingStrategy::kGroupByLength;
  data::BatchOptions options{
      .rows = config.micro_batch_size,
      .sequence_len = config.sequence_len,
      .packing_scope_rows = config.packing_scope == config::PackingScope::kBatch ? data::kMapBatchRows : 0,
      .line_rows = config.sample_packing_bin_size,
      .shuffle_before_packing = config.packing && config.shuffle_merged_datasets.value_or(false),
      .order = in_order  ? data::RowOrder::kFile
               : grouped ? data::RowOrder::kGroupedByLength
                         : data::RowOrder::kShuffled,
      .group_batches = config.gradient_accumulation_steps,
      .seed = static_cast<uint64_t>(config.seed)};
  if (packs(config)) options.packing = packing_strategy(config);
  return options;
}

data::BatchOptions evaluation_batch_options(const config::Config& config) {
  data::BatchOptions options = batch_options(config);
  options.rows = std::min(options.rows, config.eval_batch_size.value_or(options.rows));
  options.order = data::RowOrder::kFile;
  options.packing.reset();
  if (config.eval_sample_packing.value_or(config.sample_packing || config.packing))
    options.packing = packing_strategy(config);
  return options;
}

}  // namespace spillway::train
