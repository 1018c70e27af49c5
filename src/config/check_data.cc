#include "config/check_data.h"

#include <tuple>

#include "base/text.h"
#include "config/template_name.h"
#include "data/rows/dataset_type.h"

namespace spillway::config {
namespace {

// `key` is what the verdict is on, `where` its place in messages.
void complete_template(Checks& c, std::string_view key, std::string_view where, std::string& name,
                       const std::string& jinja) {
  if (name == "jinja" && jinja.empty()) {
    throw input_error(where, "expected chat_template_jinja beside chat_template: jinja, got none; set it");
  }
  if (!jinja.empty() && !name.empty() && name != "jinja") {
    throw input_error(where, "expected chat_template: jinja beside chat_template_jinja, got {}; remove one",
                      quote(name));
  }
  if (!jinja.empty()) name = "jinja";
  Verdicts verdicts;
  verdicts.attempt(key, key, [&] { check_template_name(name, where); });
  c.loaded.verdicts.append(std::move(verdicts));
}

void complete_datasets(Checks& c, std::string_view key, std::vector<DatasetConfig>& datasets) {
  // One that is still to come has types of its own.
  const bool has_known_objective = objective_of(c.config) != data::Objective::kText ||
                                   !(c.given("rl") || c.given("reward_model") || c.given("process_reward_model"));
  for (size_t i = 0; i < datasets.size(); ++i) {
    DatasetConfig& dataset = datasets[i];
    const std::string where = fmt::format("{}.{}", c.where(key), i);
    if (dataset.path.empty()) throw input_error(where + ".path", "expected a file or a folder, got nothing; set it");
    for (const auto& [name, older] :
         {std::pair{"role", &dataset.message_field_role}, {"content", &dataset.message_field_content}}) {
      if (older->empty()) continue;
      const auto [mapping, is_new] = dataset.message_property_mappings.emplace(name, *older);
      if (!is_new && mapping->second != *older) {
        throw input_error(fmt::format("{}.message_field_{}", where, name),
                          "expected the name in message_property_mappings.{}, {}, got {}; remove one", name,
                          quote(mapping->second), quote(*older));
      }
    }
    if (has_known_objective) {
      Verdicts types;
      const std::string type_key = fmt::format("{}.{}.type", key, i);
      types.attempt(type_key, type_key, [&] { data::check_dataset_type(dataset, objective_of(c.config)); });
      c.loaded.verdicts.append(std::move(types));
    }
    complete_template(c, fmt::format("{}.{}.chat_template", key, i), where + ".chat_template", dataset.chat_template,
                      dataset.chat_template_jinja);
    if (dataset.shards_idx >= dataset.shards) {
      throw input_error(where + ".shards_idx", "expected a part from 0 to {}, got {}; lower it or raise shards",
                        dataset.shards - 1, dataset.shards_idx);
    }
  }
}

void complete_pretraining(Checks& c) {
  Config& config = c.config;
  if (config.pretraining_dataset.empty()) return;
  if (!config.datasets.empty()) {
    constexpr const char* kReplaced = "pretraining_dataset takes the place of datasets";
    c.loaded.notes.emplace_back(kReplaced);
    c.loaded.verdicts.ignore_below("datasets", kReplaced);
    c.loaded.verdicts.ignore("dataset_name", kReplaced);
  }
  for (DatasetConfig& dataset : config.pretraining_dataset) {
    if (!dataset.type.given) dataset.type = {.given = true, .name = "pretrain"};
  }
  config.datasets = config.pretraining_dataset;
  c.loaded.given["datasets"] = c.where("pretraining_dataset");
  config.streaming = true;
}

// A stream has no end, and nobody sees all of its rows.
void check_streaming(Checks& c) {
  const Config& config = c.config;
  const bool pretrains = !config.pretraining_dataset.empty();
  const char* const streams = pretrains ? "pretraining_dataset" : "streaming";
  const char* const no_stream = pretrains ? "name the data in datasets" : "remove streaming";
  const std::string where = c.where(streams);
  if (config.max_steps.value_or(0) <= 0)
    throw input_error(where, "expected max_steps beside it, got none; a stream has no end of its own: set max_steps");
  const bool sorts = config.group_by_length || config.train_sampling_strategy == SamplingStrategy::kGroupByLength;
  const bool prefers = config.rl != Rl::kNone || config.reward_model;
  for (const auto& [is_set, key, advice] :
       {std::tuple{config.val_set_size > 0, "val_set_size", "evaluate on test_datasets"},
        {config.dataset_exact_deduplication, "dataset_exact_deduplication", "remove it"},
        {sorts, config.group_by_length ? "group_by_length" : "train_sampling_strategy", "remove it"},
        {config.process_reward_model, "process_reward_model", no_stream},
        {prefers, config.reward_model ? "reward_model" : "rl", no_stream}}) {
    if (is_set)
      throw input_error(c.where(key), "expected rows that are all read first, got {} beside it; {}", streams, advice);
  }
  if (config.test_datasets.empty()) c.loaded.verdicts.ignore("dataset_prepared_path", "a stream is not kept");
}

// TRL's names of tokens by role, and ours.
void complete_tokens(Checks& c) {
  SpecialTokens& ours = c.config.special_tokens;
  for (const auto& [name, trl, own] : {std::tuple{"eos_token", &c.config.eos_token, &ours.eos_token},
                                       {"pad_token", &c.config.pad_token, &ours.pad_token}}) {
    if (trl->empty()) continue;
    if (!own->empty() && *own != *trl) {
      throw input_error(c.where(name), "expected the token of special_tokens.{}, {}, got {}; remove one", name,
                        quote(*own), quote(*trl));
    }
    *own = *trl;
  }
}

}  // namespace

void complete_data(Checks& c) {
  Config& config = c.config;
  complete_tokens(c);
  c.exclude("datasets", true, "dataset_name", true);
  if (config.dataset_name.empty()) {
    c.loaded.verdicts.ignore("dataset_train_split", "it goes with dataset_name; entries of datasets have a split");
    c.loaded.verdicts.ignore("dataset_config", "it goes with dataset_name; entries of datasets have a name");
  } else {
    DatasetConfig& dataset = config.datasets.emplace_back();
    dataset.path = config.dataset_name;
    if (!config.dataset_train_split.empty()) dataset.split = config.dataset_train_split;
    dataset.name = config.dataset_config;
    c.loaded.given.emplace("datasets", c.where("dataset_name"));
  }
  complete_pretraining(c);
  if (config.streaming) check_streaming(c);
  if (config.datasets.empty()) {
    throw input_error(c.where("datasets"),
                      "expected at least one dataset, got none; write `- path: FILE` below `datasets:`");
  }
  complete_datasets(c, config.pretraining_dataset.empty() ? "datasets" : "pretraining_dataset", config.datasets);
  complete_datasets(c, "test_datasets", config.test_datasets);
  complete_template(c, "chat_template", c.where("chat_template"), config.chat_template, config.chat_template_jinja);
}

void complete_length(Checks& c) {
  if (!c.config.max_length) {
    if (c.config.truncation_mode == TruncationMode::kKeepEnd) {
      throw input_error(
          c.where("truncation_mode"),
          "expected max_length beside truncation_mode, got none; set max_length in place of sequence_len");
    }
  } else {
    if (c.given("sequence_len") && c.config.sequence_len != *c.config.max_length) {
      throw input_error(c.where("max_length"),
                        "expected the length of sequence_len, {}, got {}; remove sequence_len or max_length",
                        c.config.sequence_len, *c.config.max_length);
    }
    if (!c.given("sequence_len")) {
      if (c.given("excess_length_strategy") && c.config.excess_length_strategy != ExcessLength::kTruncate) {
        throw input_error(c.where("excess_length_strategy"),
                          "expected truncate beside max_length, got another; set sequence_len in place of max_length");
      }
      c.config.sequence_len = *c.config.max_length;
      c.config.length_rules = LengthRules::kTrl;
      c.config.excess_length_strategy = ExcessLength::kTruncate;
    }
  }
  if (c.config.length_rules == LengthRules::kAxolotl && c.config.min_sample_len > c.config.sequence_len) {
    throw input_error(c.where("min_sample_len"), "expected at most sequence_len, {}, got {}; lower it",
                      c.config.sequence_len, c.config.min_sample_len);
  }
}

}  // namespace spillway::config
