#include "data/rows/preference_rows.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/math.h"
#include "text/jinja/unicode.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

// Removes the common start of both and returns it: whole messages, or characters; a space at the end stays with what
// follows.
Json take_common_start(Json& chosen, Json& rejected) {
  if (chosen.is_array()) {
    const size_t limit = std::min(chosen.size(), rejected.size());
    size_t same = 0;
    while (same + 1 < limit && chosen[same] == rejected[same]) ++same;
    Json prompt = Json::array();
    for (size_t i = 0; i < same; ++i) prompt.push_back(chosen[i]);
    for (Json* list : {&chosen, &rejected})
      list->erase(list->begin(), list->begin() + static_cast<std::ptrdiff_t>(same));
    return prompt;
  }
  const std::string a = chosen, b = rejected;
  size_t same = 0, last = 0;  // bytes up to the first difference, and up to the character before it
  bool differs = false;
  while (same < std::min(a.size(), b.size())) {
    const size_t bytes = text::jinja::char_bytes(a, same);
    differs = a.compare(same, bytes, b, same, bytes) != 0;
    if (differs) break;
    last = same;
    same += bytes;
  }
  // As TRL: of texts where one begins with the other, the last character that they share counts as different.
  if (!differs) same = last;
  if (differs && same > 0 && a[same - 1] == ' ') --same;
  chosen = a.substr(same);
  rejected = b.substr(same);
  return a.substr(0, same);
}

// TRL's standard columns.
class PreferenceColumns : public PreferenceFormat {
 public:
  explicit PreferenceColumns(const DatasetConfig& config) : config_(config) {}

  [[nodiscard]] PreferenceExample read(const Record& record) const override {
    const auto has = [&](const std::string& name) { return given_field(record, name) != nullptr; };
    PreferenceExample example;
    if (has(config_.field_chosen) || has(config_.field_rejected) || !has(config_.field_completion)) {
      example.completions = {value_of(record, config_.field_chosen, "field_chosen"),
                             value_of(record, config_.field_rejected, "field_rejected")};
    } else {
      example.completions = {value_of(record, config_.field_completion, "field_completion")};
      example.label = label_of(record, config_.field_label);
    }
    if (record.fields.contains(config_.field_prompt))  // null is refused: it is no empty prompt
      example.prompt = value_of(record, config_.field_prompt, "field_prompt");
    settle_prompt(record, example);
    return example;
  }

 private:
  // Text, or a list of messages.
  [[nodiscard]] static Json value_of(const Record& record, const std::string& name, const char* key) {
    const Json& value = required_field(record, name, key);
    if (value.is_null())
      throw input_error(record.where, "expected text or messages in '{}', got null; correct the row", name);
    if (value.is_array() || value.is_object())
      return messages_of(record, value.is_array() ? value : Json::array({value}), name);
    return text_of(record, value, name);
  }

  void settle_prompt(const Record& record, PreferenceExample& example) const {
    std::vector<Json>& completions = example.completions;
    const bool chat = completions.front().is_array();
    for (const Json& completion : completions) {
      if (completion.is_array() != chat)
        throw input_error(record.where,
                          "expected '{}' and '{}' both as text or both as messages, got one of each; "
                          "correct the row",
                          config_.field_chosen, config_.field_rejected);
    }
    if (example.prompt.is_array() && !chat)
      throw input_error(
          record.where, "expected '{}' as text like '{}', got messages; write the answers as messages, too",
          config_.field_prompt, completions.size() == 1 ? config_.field_completion : config_.field_chosen);
    // A text prompt beside conversations only repeats their beginning.
    const bool has_prompt = !example.prompt.is_null() && example.prompt.is_array() == chat;
    if (has_prompt) return;
    if (completions.size() == 1)
      throw input_error(record.where, "expected '{}' as {} like '{}', got {}; correct the row", config_.field_prompt,
                        chat ? "messages" : "text", config_.field_completion,
                        example.prompt.is_null() ? "none" : example.prompt.type_name());
    example.prompt = take_common_start(completions[0], completions[1]);
  }

  DatasetConfig config_;
};

// TRL's column; 0 without it.
float margin_of(const Record& record) {
  if (!record.fields.contains("margin") || record.fields["margin"].is_null()) return 0;
  const Json& margin = record.fields["margin"];
  if (margin.is_number()) return margin.get<float>();
  throw input_error(record.where, "expected a number in 'margin', got {}; correct the row", margin.type_name());
}

PreferenceRow unpaired_of(std::span<const int32_t> ids, int64_t prompt, bool label) {
  return {.prompt_ids = {ids.begin(), ids.begin() + prompt},
          .completions = {{ids.begin() + prompt, ids.end()}},
          .label = label};
}

PreferenceRow pair_of(std::span<const int32_t> ids, int64_t prompt, int64_t chosen) {
  const auto completions = ids.begin() + prompt, rejected = completions + chosen;
  return {.prompt_ids = {ids.begin(), completions}, .completions = {{completions, rejected}, {rejected, ids.end()}}};
}

}  // namespace

bool label_of(const Record& record, std::string_view column) {
  const Json& label = required_field(record, column, "field_label");
  if (label.is_boolean()) return label.get<bool>();
  if (label.is_number_integer()) return label.get<int64_t>() != 0;
  if (label.is_string()) {
    const std::string text = text::jinja::lower(label.get_ref<const std::string&>());  // as CSV has it
    if (text == "true" || text == "1") return true;
    if (text == "false" || text == "0") return false;
  }
  throw input_error(record.where, "expected true or false in '{}', got {}; correct the row", column, label.type_name());
}

Row joined_row(const PreferenceRow& row, Objective objective) {
  Row joined{.input_ids = row.prompt_ids, .left_out = row.left_out};
  for (const std::vector<int32_t>& completion : row.completions)
    joined.input_ids.insert(joined.input_ids.end(), completion.begin(), completion.end());
  const bool is_pair = row.completions.size() == 2;
  joined.values = {narrow<int32_t>(row.prompt_ids.size()),
                   is_pair ? narrow<int32_t>(row.completions[0].size()) : int32_t{row.label}};
  if (objective == Objective::kReward) joined.values.push_back(std::bit_cast<int32_t>(row.margin));
  return joined;
}

PreferenceRow preference_of(const Row& row, Objective objective) {
  const bool is_unpaired = objective == Objective::kUnpaired;
  PreferenceRow parts = is_unpaired ? unpaired_of(row.input_ids, row.values[0], row.values[1] != 0)
                                    : pair_of(row.input_ids, row.values[0], row.values[1]);
  if (objective == Objective::kReward) parts.margin = std::bit_cast<float>(row.values[2]);
  parts.left_out = row.left_out;
  return parts;
}

PreferenceRow preference_of(const RowTable& rows, int64_t index) {
  const std::span<const int32_t> ids = rows.ids(rows.row(index));
  const int32_t prompt = rows.value("prompt_tokens", index);
  const bool is_unpaired = std::ranges::equal(rows.schema(), kUnpairedColumns);
  if (is_unpaired) return unpaired_of(ids, prompt, rows.value("label", index) != 0);
  PreferenceRow pair = pair_of(ids, prompt, rows.value("chosen_tokens", index));
  if (std::ranges::equal(rows.schema(), kRewardColumns))
    pair.margin = std::bit_cast<float>(rows.value("margin", index));
  return pair;
}

std::unique_ptr<PreferenceFormat> make_preference_columns(const DatasetConfig& config) {
  return std::make_unique<PreferenceColumns>(config);
}

PreferenceBuilder::PreferenceBuilder(const DatasetConfig& config, const RowOptions& options,
                                     const text::Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      objective_(options.objective),
      is_typed_(!config.type.name.empty() || config.type.is_user_defined()),
      renderer_(config, options, tokenizer),
      format_(is_typed_ ? make_preference_format(config, objective_, renderer_) : make_preference_columns(config)) {}

void PreferenceBuilder::build(const Record& record, std::vector<PreferenceRow>& rows) const {
  PreferenceExample example = format_->read(record);
  if (objective_ == Objective::kReward) example.margin = margin_of(record);
  if (objective_ != Objective::kUnpaired) {
    if (example.completions.size() == 1)
      throw input_error(record.where, "expected a chosen and a rejected completion, got one with a label; set rl: kto");
    rows.push_back(tokenize(record, example));
    return;
  }
  for (size_t i = 0; i < example.completions.size(); ++i) {
    const bool label = example.completions.size() == 1 ? example.label : i == 0;
    rows.push_back(tokenize(record, {example.prompt, {example.completions[i]}, label, /*margin=*/0, example.left_out}));
  }
}

void PreferenceBuilder::build(const Record& record, std::vector<Row>& rows) const {
  std::vector<PreferenceRow> built;
  build(record, built);
  for (const PreferenceRow& row : built) rows.push_back(joined_row(row, objective_));
}

PreferenceBuilder::Ids PreferenceBuilder::encode(const std::string& text, bool is_rendered) const {
  Ids ids = tokenizer_.encode(text, !is_rendered && objective_ != Objective::kOrpo);
  const auto bos = tokenizer_.bos_id();
  if (!bos) return ids;
  if (objective_ == Objective::kOrpo && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  if (is_typed_ && ids.size() > 1 && ids[0] == *bos && ids[1] == *bos) ids.erase(ids.begin());
  return ids;
}

PreferenceBuilder::Ids PreferenceBuilder::encode_prompt(const Record& record, const PreferenceExample& example) const {
  if (example.prompt.is_string()) return encode(example.prompt, false);
  return encode(renderer_.render(record, example.prompt, tools_of(record), true).text, true);
}

PreferenceBuilder::Ids PreferenceBuilder::encode_whole(const Record& record, const PreferenceExample& example,
                                                       const Json& completion, LeftOutParts& left_out) const {
  Ids ids;
  if (completion.is_string()) {
    std::string text = example.prompt.get<std::string>() + completion.get<std::string>();
    const std::string eos = tokenizer_.eos_token();
    if (!completion.get_ref<const std::string&>().ends_with(eos)) text += eos;
    ids = encode(text, false);
  } else {
    Json messages = example.prompt;
    for (const Json& message : completion) messages.push_back(message);
    const auto is_learned = [&](size_t i) { return i >= example.prompt.size(); };
    ids = encode(renderer_.render(record, messages, tools_of(record), false, is_learned, left_out).text, true);
  }
  const auto eos = tokenizer_.eos_id();
  if (objective_ == Objective::kOrpo && eos && (ids.empty() || ids.back() != *eos)) ids.push_back(*eos);
  return ids;
}

PreferenceRow PreferenceBuilder::tokenize(const Record& record, const PreferenceExample& example) const {
  if (objective_ != Objective::kReward && example.prompt.is_array() && example.prompt.empty())
    throw input_error(record.where,
                      "expected a prompt of messages, or conversations that begin with the same message, got neither; "
                      "correct the row");
  PreferenceRow row;
  row.label = example.label;
  row.margin = example.margin;
  row.left_out = example.left_out;
  for (const Json& completion : example.completions) {
    LeftOutParts left_out;
    row.completions.push_back(encode_whole(record, example, completion, left_out));
    if (row.completions.size() == 1 && left_out.any()) row.left_out = left_out;  // the prompt is the same in both
  }
  if (objective_ == Objective::kReward) return row;
  const Ids prompt = encode_prompt(record, example);
  size_t shared = prompt.size();
  for (const Ids& whole : row.completions) {
    const auto end = std::mismatch(prompt.begin(), prompt.end(), whole.begin(), whole.end()).first;
    shared = std::min(shared, static_cast<size_t>(end - prompt.begin()));
  }
  row.prompt_ids.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(shared));
  for (Ids& whole : row.completions) whole.erase(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(shared));
  return row;
}

}  // namespace spillway::data
