#include "train/training_data.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "base/parallel.h"
#include "data/prepared/identity.h"
#include "data/prepared/prepared_rows.h"
#include "data/tokenizer.h"

namespace spillway::train {
namespace {

// What the datasets library maps at once, and so what TRL packs together.
constexpr int64_t kMapBatchRows = 1000;

data::RowOptions row_options(const Config& config) {
  return {.objective = objective_of(config),
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
          .eot_tokens = config.eot_tokens};
}

// A tokenizer of another model may have ids that the embedding has no row for.
void check_largest(int32_t id, const ModelConfig& model, const std::string& tokenizer) {
  if (id < model.vocab_size) return;
  throw input_error(
      tokenizer,
      "expected token ids below the model's vocab_size {}, got {}; use the tokenizer that belongs to the model",
      model.vocab_size, id);
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

// Rows in memory, or those of dataset_prepared_path.
class RowLoader {
 public:
  RowLoader(const Config& config, const std::function<void(int64_t)>& progress)
      : config_(config),
        folder_(tokenizer_folder(config)),
        tokenizer_(data::Tokenizer::load(folder_)),
        preparation_{static_cast<int>(config.dataset_processes.value_or(available_cpus())), progress} {
    tokenizer_.add_tokens(config.special_tokens);
  }

  [[nodiscard]] data::Dataset load(std::string_view key, const std::vector<DatasetConfig>& datasets,
                                   const data::RowOptions& options) const {
    const data::PreparedRows rows = prepare(datasets, options);
    say_what_was_read(key, rows);
    return rows.dataset;
  }
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  [[nodiscard]] data::PreparedRows prepare(const std::vector<DatasetConfig>& datasets,
                                           const data::RowOptions& options) const {
    if (config_.dataset_prepared_path.empty())
      return {data::load_datasets(datasets, options, tokenizer_, preparation_), {}, false};
    return data::prepare_rows(
        config_.dataset_prepared_path, data::rows_identity(datasets, options, folder_, config_.special_tokens),
        [&](data::RowSink& sink) { return data::read_datasets(datasets, options, tokenizer_, preparation_, sink); });
  }

  const Config& config_;
  std::string folder_;
  data::Tokenizer tokenizer_;
  data::Preparation preparation_;
};

// The strategy that a job packs with, if it packs.
data::PackingStrategy packing_strategy(const Config& config) {
  const bool trl = config.packing || (!config.sample_packing && config.length_rules == LengthRules::kTrl);
  if (trl) return config.packing_strategy;
  return config.sample_packing_sequentially ? data::PackingStrategy::kSequential : data::PackingStrategy::kFirstFit;
}

}  // namespace

data::Objective objective_of(const Config& config) {
  if (config.reward_model) return data::Objective::kReward;
  switch (config.rl) {
    case Rl::kNone:
      return data::Objective::kText;
    case Rl::kOrpo:
      return data::Objective::kOrpo;
    case Rl::kKto:
      return data::Objective::kUnpaired;
    default:
      return data::Objective::kPairs;
  }
}

TrainingData load_training_data(const Config& config, const ModelConfig& model,
                                const std::function<void(int64_t)>& progress) {
  const RowLoader loader(config, progress);
  data::RowOptions options = row_options(config);
  options.packing = batch_options(config).packing;
  const data::Dataset training = loader.load("datasets", config.datasets, options);
  check_largest(training.rows.largest_id(), model, loader.folder());
  TrainingData result{.training_summary = training.summary};
  if (config.test_datasets.empty()) {
    std::tie(result.training, result.validation) =
        data::split_validation(training.rows, config.val_set_size, static_cast<uint64_t>(config.seed));
    return result;
  }
  options.packing = evaluation_batch_options(config).packing;
  const data::Dataset validation = loader.load("test_datasets", config.test_datasets, options);
  check_largest(validation.rows.largest_id(), model, loader.folder());
  result.training = training.rows;
  result.validation = validation.rows;
  result.validation_summary = validation.summary;
  return result;
}

PreferenceData load_preference_data(const Config& config, const ModelConfig& model) {
  const std::string& folder = tokenizer_folder(config);
  data::Tokenizer tokenizer = data::Tokenizer::load(folder);
  tokenizer.add_tokens(config.special_tokens);
  const data::RowOptions options = row_options(config);
  PreferenceData result{.training = data::load_preferences(config.datasets, options, tokenizer)};
  if (config.test_datasets.empty()) {
    const data::RowSplit split = data::split_validation(std::ssize(result.training.rows), config.val_set_size,
                                                        static_cast<uint64_t>(config.seed));
    std::vector<data::PreferenceRow> training;
    for (const int64_t i : split.training) training.push_back(std::move(result.training.rows[static_cast<size_t>(i)]));
    for (const int64_t i : split.validation)
      result.validation.rows.push_back(std::move(result.training.rows[static_cast<size_t>(i)]));
    result.training.rows = std::move(training);
  } else {
    result.validation = data::load_preferences(config.test_datasets, options, tokenizer);
  }
  for (const auto* rows : {&result.training.rows, &result.validation.rows}) {
    check_largest(data::largest_id(*rows), model, folder);
  }
  return result;
}

data::BatchOptions batch_options(const Config& config) {
  const bool in_order = config.curriculum_sampling || config.train_sampling_strategy == Sampling::kSequential;
  const bool grouped = config.group_by_length || config.train_sampling_strategy == Sampling::kGroupByLength;
  data::BatchOptions options{.rows = config.micro_batch_size,
                             .sequence_len = config.sequence_len,
                             .packing_scope_rows = config.packing_scope == PackingScope::kBatch ? kMapBatchRows : 0,
                             .shuffle_before_packing = config.packing && config.shuffle_merged_datasets.value_or(false),
                             .order = in_order  ? data::RowOrder::kFile
                                      : grouped ? data::RowOrder::kGroupedByLength
                                                : data::RowOrder::kShuffled,
                             .group_batches = config.gradient_accumulation_steps,
                             .seed = static_cast<uint64_t>(config.seed)};
  if (config.sample_packing || config.packing) options.packing = packing_strategy(config);
  return options;
}

data::BatchOptions evaluation_batch_options(const Config& config) {
  data::BatchOptions options = batch_options(config);
  options.rows = std::min(options.rows, config.eval_batch_size.value_or(options.rows));
  options.order = data::RowOrder::kFile;
  options.packing.reset();
  if (config.eval_sample_packing.value_or(config.sample_packing || config.packing))
    options.packing = packing_strategy(config);
  return options;
}

}  // namespace spillway::train
