// Rows: how long they may be, and what of them is learned.
#include <algorithm>

#include "base/text.h"
#include "config/programs.h"
#include "config/resolve.h"
#include "config/template_name.h"

namespace spillway::config {
namespace {

// TRL cuts no row where max_length is null. Here a row has room for so many tokens, so longer ones are an error.
void resolve_unlimited_length(const Resolution& r, data::RowOptions& rows) {
  const auto empty = r.loaded.emptied.find("max_length");
  if (program_of(r.loaded) != Program::kTrl || r.given("sequence_len") || r.given("max_length") ||
      empty == r.loaded.emptied.end() || is_online(r.keys))
    return;
  if (r.keys.packing)
    throw input_error(empty->second,
                      "expected a number beside packing, as in TRL, got nothing; write the length of a packed line");
  rows.sequence_len = *r.keys.max_length;
  rows.length_rules = LengthRules::kTrl;
  rows.excess_length_strategy = ExcessLength::kRaise;
  r.note(fmt::format("max_length: null cuts no row: a row has room for {} tokens, and a longer one is an error",
                     rows.sequence_len));
}

// Throws InputError where two keys say different things about what of a row is learned.
void check_targets(const Resolution& r) {
  const Spelled& keys = r.keys;
  const bool says_inputs = r.given("train_on_inputs") && !has_preferences(keys) && !is_online(keys);
  if (says_inputs && keys.rows.completion_only_loss && *keys.rows.completion_only_loss == keys.rows.train_on_inputs)
    throw input_error(r.where("completion_only_loss"),
                      "expected {} beside train_on_inputs: {}, which says the same of prompts, got {}; remove one",
                      !keys.rows.train_on_inputs, keys.rows.train_on_inputs, *keys.rows.completion_only_loss);
  if (says_inputs && keys.rows.train_on_inputs && keys.rows.assistant_only_loss)
    throw input_error(r.where("assistant_only_loss"),
                      "expected false beside train_on_inputs: true, got true; remove one");
}

// sequence_len or max_length, and the rules that come with it.
void resolve_length(const Resolution& r, data::RowOptions& rows) {
  const Spelled& keys = r.keys;
  if (!keys.max_length) {
    if (keys.rows.truncation_mode == TruncationMode::kKeepEnd) {
      throw input_error(
          r.where("truncation_mode"),
          "expected max_length beside truncation_mode, got none; set max_length in place of sequence_len");
    }
  } else if (r.given("sequence_len")) {
    if (keys.rows.sequence_len != *keys.max_length) {
      throw input_error(r.where("max_length"),
                        "expected the length of sequence_len, {}, got {}; remove sequence_len or max_length",
                        keys.rows.sequence_len, *keys.max_length);
    }
  } else {
    if (r.given("excess_length_strategy") && keys.rows.excess_length_strategy != ExcessLength::kTruncate) {
      throw input_error(r.where("excess_length_strategy"),
                        "expected truncate beside max_length, got another; set sequence_len in place of max_length");
    }
    rows.sequence_len = *keys.max_length;
    rows.length_rules = LengthRules::kTrl;
    rows.excess_length_strategy = ExcessLength::kTruncate;
  }
  if (rows.length_rules == LengthRules::kAxolotl && keys.rows.min_sample_len > rows.sequence_len) {
    throw input_error(r.where("min_sample_len"), "expected at most sequence_len, {}, got {}; lower it",
                      rows.sequence_len, keys.rows.min_sample_len);
  }
}

// Keys of rows that others than those of the objective have.
void ignore_others_row_keys(const Resolution& r) {
  const bool prefers = has_preferences(r.keys), generates = is_online(r.keys);
  if (!prefers) r.ignore("max_prompt_length", "it cuts the prompts of preference rows");
  if (!prefers && !generates) r.ignore("max_completion_length", "it belongs to preferences and generated completions");
  if (!prefers && !generates) return;
  for (const char* key : {"train_on_inputs", "assistant_only_loss", "completion_only_loss"})
    r.ignore(key, prefers ? "of preference rows the completions are compared, whole"
                          : "the completions that the run generates are what is learned");
  constexpr const char* kOwnOrder = "the rows of online training are prompts, which have no length of their own";
  if (generates && r.keys.group_by_length) r.ignore("group_by_length", kOwnOrder);
  if (generates && r.keys.train_sampling_strategy == SamplingStrategy::kGroupByLength)
    r.ignore("train_sampling_strategy", kOwnOrder);
}

// Returns true if the rows of one of these have no type, so that TRL's keys say what of them is learned.
bool have_untyped_rows(const std::vector<DatasetConfig>& datasets) {
  return std::any_of(datasets.begin(), datasets.end(), [](const DatasetConfig& one) {
    return !one.type.given || (one.type.name.empty() && !one.type.is_user_defined());
  });
}

// train_on_inputs says of prompts what completion_only_loss says, which is what rows without a type go by.
void take_train_on_inputs(const Resolution& r, data::RowOptions& rows, const std::vector<DatasetConfig>& datasets) {
  if (r.given("train_on_inputs") && !rows.completion_only_loss && have_untyped_rows(datasets))
    rows.completion_only_loss = !rows.train_on_inputs;
}

// TRL's keys of rows without a type, where all have one.
void ignore_untyped_row_keys(const Resolution& r, const data::DataSettings& data) {
  if (have_untyped_rows(data.datasets) || have_untyped_rows(data.test_datasets)) return;
  for (const char* key : {"completion_only_loss", "assistant_only_loss"})
    r.ignore(key, "what is learned of rows with a type is said by train_on_inputs and roles_to_train");
  r.ignore("dataset_text_field", "rows with a type have fields of their own");
}

}  // namespace

std::string resolve_template(const Resolution& r, std::string_view key, std::string_view where, const std::string& said,
                             const std::string& jinja) {
  if (said == "jinja" && jinja.empty()) {
    throw input_error(where, "expected chat_template_jinja beside chat_template: jinja, got none; set it");
  }
  if (!jinja.empty() && !said.empty() && said != "jinja") {
    throw input_error(where, "expected chat_template: jinja beside chat_template_jinja, got {}; remove one",
                      quote(said));
  }
  std::string name = jinja.empty() ? said : "jinja";
  Verdicts verdicts;
  verdicts.attempt(key, key, [&] { check_template_name(name, where); });
  r.loaded.verdicts.append(std::move(verdicts));
  return name;
}

data::RowOptions resolve_rows(const Resolution& r, const data::DataSettings& data) {
  const Spelled& keys = r.keys;
  ignore_others_row_keys(r);
  check_targets(r);
  data::RowOptions rows = keys.rows;
  rows.objective = objective_of(keys);
  if (rows.objective == data::Objective::kText) {
    take_train_on_inputs(r, rows, data.datasets);
    ignore_untyped_row_keys(r, data);
  }
  rows.max_prompt_length = keys.max_prompt_length.value_or(0);
  rows.max_completion_length = keys.max_completion_length.value_or(0);
  rows.chat_template =
      resolve_template(r, "chat_template", r.where("chat_template"), keys.chat_template, keys.rows.chat_template_jinja);
  resolve_length(r, rows);
  resolve_unlimited_length(r, rows);
  return rows;
}

}  // namespace spillway::config
