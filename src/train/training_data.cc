#include "train/training_data.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "data/tokenizer.h"

namespace spillway::train {
namespace {

data::RowOptions row_options(const Config& config) {
  return {.sequence_len = config.sequence_len,
          .length_rules = config.length_rules,
          .excess_length_strategy = config.excess_length_strategy,
          .truncation_mode = config.truncation_mode,
          .min_sample_len = config.min_sample_len,
          .packing = config.sample_packing,
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
void check_ids(const std::vector<data::Row>& rows, const ModelConfig& model, const std::string& tokenizer) {
  for (const data::Row& row : rows) {
    for (const int32_t id : row.input_ids) {
      if (id >= 0 && id < model.vocab_size) continue;
      throw input_error(
          tokenizer,
          "expected token ids below the model's vocab_size {}, got {}; use the tokenizer that belongs to the model",
          model.vocab_size, id);
    }
  }
}

void say_what_was_read(std::string_view key, const data::Dataset& dataset) {
  const data::DatasetSummary& s = dataset.summary;
  const int64_t dropped =
      s.dropped.empty + s.dropped.too_short + s.dropped.too_long + s.dropped.no_targets + s.dropped.duplicate;
  log_info("{}: {} rows, {} tokens{}{}", key, dataset.rows.size(), s.tokens,
           dropped > 0
               ? fmt::format(", {} dropped ({} empty, {} too short, {} too long, {} without targets, {} duplicates)",
                             dropped, s.dropped.empty, s.dropped.too_short, s.dropped.too_long, s.dropped.no_targets,
                             s.dropped.duplicate)
               : "",
           s.truncated > 0 ? fmt::format(", {} truncated", s.truncated) : "");
}

}  // namespace

TrainingData load_training_data(const Config& config, const ModelConfig& model) {
  const std::string folder = config.tokenizer_config.empty() ? config.base_model : config.tokenizer_config;
  data::Tokenizer tokenizer = data::Tokenizer::load(folder);
  tokenizer.set_special_tokens(config.special_tokens, "special_tokens");
  const data::RowOptions options = row_options(config);
  data::Dataset training = data::load_datasets(config.datasets, options, tokenizer);
  say_what_was_read("datasets", training);
  TrainingData result{.training = std::move(training.rows), .training_summary = training.summary};
  if (!config.test_datasets.empty()) {
    data::Dataset validation = data::load_datasets(config.test_datasets, options, tokenizer);
    say_what_was_read("test_datasets", validation);
    result.validation = std::move(validation.rows);
    result.validation_summary = validation.summary;
  } else {
    result.validation =
        data::split_validation(result.training, config.val_set_size, static_cast<uint64_t>(config.seed));
  }
  check_ids(result.training, model, folder);
  check_ids(result.validation, model, folder);
  return result;
}

data::BatchOptions batch_options(const Config& config) {
  return {.rows = config.micro_batch_size,
          .sequence_len = config.sequence_len,
          .packing = config.sample_packing,
          .shuffle = !config.curriculum_sampling,
          .seed = static_cast<uint64_t>(config.seed)};
}

data::BatchOptions evaluation_batch_options(const Config& config) {
  data::BatchOptions options = batch_options(config);
  options.rows = std::min(options.rows, config.eval_batch_size.value_or(options.rows));
  options.packing = config.eval_sample_packing.value_or(options.packing);
  options.shuffle = false;
  return options;
}

}  // namespace spillway::train
