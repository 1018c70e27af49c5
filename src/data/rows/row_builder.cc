#include "data/rows/row_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/sizes.h"
#include "base/text.h"
#include "data/rows/answer_ends.h"
#include "data/rows/dataset_type.h"
#include "data/rows/instruction_kinds.h"
#include "data/rows/preference_rows.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kStepwise = "stepwise_supervised";

// `type:` empty: rows that are tokenised already.
class TokenizedRows : public RowBuilder {
 public:
  TokenizedRows(const RowOptions& options, const text::Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer) {}
  void build(const Record& record, std::vector<Row>& rows) const override {
    rows.push_back(tokenized_row(record, options_, tokenizer_));
  }

 private:
  RowOptions options_;
  const text::Tokenizer& tokenizer_;
};

std::string names_of(const Json& fields) {
  constexpr size_t kShown = 20;
  std::string names;
  size_t count = 0;
  for (const auto& [name, value] : fields.items()) {
    if (++count <= kShown) names += (names.empty() ? "" : ", ") + quote(name);
  }
  if (count > kShown) names += fmt::format(" and {} more", count - kShown);
  return names.empty() ? "no fields" : names;
}

// A column of integers in [lowest, end); CSV holds it as JSON text.
std::vector<int32_t> integers_of(const Record& record, std::string_view name, int64_t lowest, int64_t end) {
  const Json list = list_of(record, required_field(record, name, "type"), name);
  std::vector<int32_t> numbers;
  for (const Json& item : list) {
    if (!item.is_number_integer() && !item.is_boolean()) {
      throw input_error(record.where, "expected integers in '{}', got {} at index {}; correct the row", name,
                        item.type_name(), numbers.size());
    }
    const int64_t number = item.is_boolean() ? (item.get<bool>() ? 1 : 0) : item.get<int64_t>();
    const bool is_too_large =
        item.is_number_unsigned() ? item.get<uint64_t>() >= static_cast<uint64_t>(end) : number >= end;
    if (number < lowest || is_too_large) {
      throw input_error(record.where,
                        "expected numbers from {} to {} in '{}', got {} at index {}; is it the model's own tokenizer?",
                        lowest, end - 1, name, item.dump(), numbers.size());
    }
    numbers.push_back(static_cast<int32_t>(number));
  }
  return numbers;
}

void check_length(const Record& record, std::string_view name, size_t got, size_t expected) {
  if (got != expected)
    throw input_error(record.where, "expected '{}' as long as input_ids ({}), got {}; correct the row", name, expected,
                      got);
}

std::vector<int32_t> mask_of(const Record& record, std::string_view name, size_t size) {
  std::vector<int32_t> mask = integers_of(record, name, 0, 2);
  check_length(record, name, mask.size(), size);
  return mask;
}

std::vector<int32_t> labels_of(const Record& record, int64_t vocabulary, size_t size) {
  std::vector<int32_t> labels = integers_of(record, "labels", kIgnoredLabel, vocabulary);
  check_length(record, "labels", labels.size(), size);
  for (const int32_t label : labels) {
    if (label < 0 && label != kIgnoredLabel)
      throw input_error(record.where, "expected token ids or -100 in 'labels', got {}; correct the row", label);
  }
  return labels;
}

// TRL's masks of what is learned, those that count here.
void apply_masks(const Record& record, const RowOptions& options, Row& row) {
  const bool has_parts = given_field(record, "prompt") != nullptr && given_field(record, "completion") != nullptr;
  for (const auto& [name, counts] :
       {std::pair{"assistant_masks", true}, {"completion_mask", options.completion_only_loss.value_or(has_parts)}}) {
    if (!counts || given_field(record, name) == nullptr) continue;
    const std::vector<int32_t> mask = mask_of(record, name, row.labels.size());
    for (size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] == 0) row.labels[i] = kIgnoredLabel;
    }
  }
}

// Returns the builder for Objective::kText.
std::unique_ptr<RowBuilder> make_text_builder(const DatasetConfig& config, const RowOptions& options,
                                              const text::Tokenizer& tokenizer) {
  if (!config.type.given) return make_column_rows(config, options, tokenizer);
  if (config.type.name.empty() && !config.type.is_user_defined())
    return std::make_unique<TokenizedRows>(options, tokenizer);
  for (const auto& make : {make_instruction_rows, make_text_rows, make_chat_rows}) {
    if (auto builder = make(config, options, tokenizer)) return builder;
  }
  SPILLWAY_CHECK(false, "a type without a builder: {}", config.type.name);
}

}  // namespace

const Json& required_field(const Record& record, std::string_view name, std::string_view key) {
  const auto found = record.fields.find(name);
  if (found == record.fields.end()) {
    throw input_error(record.where, "expected a field '{}', got {}; {}", name, names_of(record.fields),
                      key == "type"
                          ? "give the rows that field, or set type to what they are (docs/data/formats.md)"
                          : fmt::format("set {} to the one that holds it, or type to what the rows are", key));
  }
  return *found;
}

const Json* given_field(const Record& record, std::string_view name) {
  const auto found = record.fields.find(name);
  return found == record.fields.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const Record& record, const Json& value, std::string_view name) {
  if (value.is_null()) return {};
  if (!value.is_string())
    throw input_error(record.where, "expected text in '{}', got {}; correct the row", name, value.type_name());
  return value.get<std::string>();
}

std::string given_text_of(const Record& record, const Json& value, std::string_view name) {
  if (value.is_null())
    throw input_error(record.where, "expected text in '{}', got null; correct or remove the row", name);
  return text_of(record, value, name);
}

bool truth_of(const Record& record, const Json& value, std::string_view name) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  throw input_error(record.where, "expected true, false or a number in '{}', got {}; correct the row", name,
                    value.type_name());
}

Json without_null_keys(const Json& value) {
  if (!value.is_structured()) return value;
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) list.push_back(without_null_keys(item));
    return list;
  }
  Json object = Json::object();
  auto& members = object.get_ref<Json::object_t&>();
  for (const auto& [key, item] : value.items()) {
    if (!item.is_null()) members.push_back({key, without_null_keys(item)});
  }
  return object;
}

Json list_of(const Record& record, const Json& value, std::string_view name) {
  Json list = value.is_string() ? parse_json<Json>(value.get_ref<const std::string&>(), record.where)
                                : without_null_keys(value);
  if (!list.is_array() && !list.is_null()) {
    throw input_error(record.where, "expected a list in '{}', got {}; correct the row", name,
                      value.is_string() ? "text that is not one" : value.type_name());
  }
  return list;
}

std::vector<int32_t> encode_to_end(const text::Tokenizer& tokenizer, std::string_view text, int end_tokens) {
  if (text.empty() && end_tokens == 1) return {};
  std::vector<int32_t> ids = tokenizer.encode(text, true);
  const auto eos = tokenizer.eos_id();
  if (!eos || ids.empty()) return ids;
  append_repeated(ids, ids.back() == *eos ? end_tokens - 1 : end_tokens, *eos);
  return ids;
}

Row learn_all(std::vector<int32_t> ids) {
  Row row;
  row.labels = ids;
  row.input_ids = std::move(ids);
  return row;
}

Row tokenized_row(const Record& record, const RowOptions& options, const text::Tokenizer& tokenizer) {
  const int64_t vocabulary = std::max(options.vocabulary, tokenizer.vocabulary_size());
  Row row = learn_all(integers_of(record, "input_ids", 0, vocabulary));
  const size_t size = row.input_ids.size();
  if (given_field(record, "labels") != nullptr) {
    row.labels = labels_of(record, vocabulary, size);
  } else {
    apply_masks(record, options, row);
  }
  if (given_field(record, "attention_mask") == nullptr) return row;
  // Masked tokens are padding, and no stream holds padding.
  const std::vector<int32_t> mask = mask_of(record, "attention_mask", size);
  Row kept;
  for (size_t i = 0; i < size; ++i) {
    if (mask[i] == 0) continue;
    kept.input_ids.push_back(row.input_ids[i]);
    kept.labels.push_back(row.labels[i]);
  }
  return kept;
}

text::ChatTemplates choose_chat_template(const DatasetConfig& config, const RowOptions& options,
                                         const text::Tokenizer& tokenizer) {
  const bool own = !config.chat_template.empty() || !config.chat_template_jinja.empty();
  const std::string& choice = own ? config.chat_template : options.chat_template;
  const std::string& jinja = own ? config.chat_template_jinja : options.chat_template_jinja;
  const std::optional<std::string> theirs = tokenizer.chat_template();
  const text::ChosenTemplate chosen = text::choose_chat_template(choice, jinja, theirs);
  const bool is_theirs = chosen.source == theirs;
  return text::ChatTemplates::compile(chosen.source, is_theirs ? tokenizer.chat_template("tool_use") : std::nullopt,
                                      chosen.where);
}

Json template_variables(const text::Tokenizer& tokenizer) {
  Json variables = Json::object();
  const auto add = [&](const char* name, const std::string& token) {
    if (!token.empty()) variables[name] = token;
  };
  add("bos_token", tokenizer.bos_token());
  add("eos_token", tokenizer.eos_token());
  add("unk_token", tokenizer.unk_token());
  add("pad_token", tokenizer.pad_token());
  return variables;
}

Json template_variables(const text::Tokenizer& tokenizer, const TemplateVariables& own) {
  Json variables = template_variables(tokenizer);
  if (!own.json.empty()) variables.update(Json::parse(own.json));
  return variables;
}

std::string place_of(const DatasetConfig& config) { return fmt::format("datasets: {}", config.path); }

InputError no_such_type(const DatasetConfig& config, std::span<const std::string_view> names, std::string_view where) {
  const std::string_view near = nearest_name(config.type.name, names);
  return input_error(where,
                     "expected a type of {}, an empty one (tokenised rows, or TRL's columns) or a mapping, got {}; {}",
                     joined_names(names), quote(config.type.name),
                     near.empty() ? "set one of them" : fmt::format("did you mean {}?", near));
}

void check_steps_type(const DatasetConfig& config, std::string_view where) {
  if (config.type.is_user_defined() || (!config.type.name.empty() && config.type.name != kStepwise))
    throw no_such_type(config, std::span(&kStepwise, 1), where);
}

void check_text_type(const DatasetConfig& config, std::string_view where) {
  const std::string& type = config.type.name;
  if (type.empty() || config.type.is_user_defined() || is_text_rows_type(type) || is_chat_rows_type(type)) return;
  if (instruction_kind(type, where)) return;
  if (type == kStepwise) {
    throw input_error(where, "expected process_reward_model: true beside type: {}, got none; set it", type);
  }
  std::vector<std::string_view> names = {"chat_template", "completion", "pretrain",
                                         "input_output",  "reflection", "pygmalion"};
  const std::vector<std::string_view> instructions = instruction_types();
  names.insert(names.end(), instructions.begin(), instructions.end());
  throw no_such_type(config, names, where);
}

std::unique_ptr<RowBuilder> make_row_builder(const DatasetConfig& config, const RowOptions& options,
                                             const text::Tokenizer& tokenizer) {
  check_dataset_type(config, options.objective, place_of(config));
  if (options.objective == Objective::kPrompts)
    throw input_error("rl", "expected rows to tokenise, got prompts, which the run itself reads; run train");
  if (options.objective == Objective::kSteps) return make_stepwise_rows(config, options, tokenizer);
  if (options.objective == Objective::kReward) return std::make_unique<PreferenceBuilder>(config, options, tokenizer);
  std::unique_ptr<RowBuilder> builder;
  if (has_completions(options.objective)) {
    builder = std::make_unique<PreferenceBuilder>(config, options, tokenizer);
  } else {
    builder = make_text_builder(config, options, tokenizer);
  }
  return with_answer_ends(std::move(builder), options.objective, tokenizer);
}

}  // namespace spillway::data
