// Rows of prompt and answer: axolotl's instruction types and the user's own (a mapping as `type`).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "data/rows/instruction_kinds.h"
#include "data/rows/row_builder.h"
#include "data/rows/text_pattern.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kPromptNames = {"system", "instruction", "input"};

// Returns the text of the pattern's {name} in a row; instruction_kinds.h has the forms.
std::string column_text(const Record& record, std::string_view name, std::string_view key) {
  const bool optional = name.ends_with('?'), list = name.ends_with('*');
  if (optional || list) name.remove_suffix(1);
  if (const size_t bar = name.find('|'); bar != std::string_view::npos) {
    const std::string_view first = name.substr(0, bar);
    name = given_field(record, first) != nullptr ? first : name.substr(bar + 1);
  }
  if (optional && given_field(record, name) == nullptr) return {};
  const Json& value = required_field(record, name, key);
  if (!list) return text_of(record, value, name);
  std::string lines;
  for (const Json& item : list_of(record, value, name)) {
    lines += fmt::format("{}- \"{}\"", lines.empty() ? "" : "\n", text_of(record, item, name));
  }
  return lines;
}

// A type with its resolved columns and texts.
struct Prompt {
  TextPattern system_layout, turn, alone;
  TextPattern instruction, input, output;
  std::string system_with_input, system_alone;
  std::string system_column;  // takes the place of the two where rows have it
  bool needs_system_column = false;
  int end_tokens = 1;
};

// A pattern for a column that the config may name differently.
TextPattern column_pattern(std::string_view usual, const std::string& renamed) {
  if (renamed.empty() || !is_renamable(usual)) return TextPattern(usual, "type");
  return TextPattern(fmt::format("{{{}{}}}", renamed, usual.empty() || usual.ends_with("?}") ? "?" : ""), "type");
}

Prompt prompt_of(const InstructionKind& kind, const DatasetConfig& config) {
  Prompt prompt;
  prompt.system_layout = TextPattern(kind.layout.system, "type");
  prompt.turn = TextPattern(kind.layout.turn, "type");
  prompt.alone = TextPattern(kind.layout.alone, "type");
  prompt.instruction = column_pattern(kind.instruction, config.field_instruction);
  prompt.input = column_pattern(kind.input, config.field_input);
  prompt.output = column_pattern(kind.output, config.field_output);
  prompt.system_with_input = kind.with_input;
  prompt.system_alone = kind.alone;
  prompt.needs_system_column = !kind.system_column.empty();
  if (prompt.needs_system_column)
    prompt.system_column = config.field_system.empty() ? kind.system_column : config.field_system;
  prompt.end_tokens = kind.end_tokens;
  return prompt;
}

// `type:` as a mapping.
Prompt user_defined_prompt(const DatasetConfig& config) {
  const auto property = [&](const char* name, const char* usual) { return config.type.property(name, usual); };
  const auto column = [&](const char* name, const char* usual, const char* mark) {
    return TextPattern(fmt::format("{{{}{}}}", property(name, usual), mark), fmt::format("type.{}", name));
  };
  const auto layout = [&](const char* name, const char* usual, std::span<const std::string_view> names) {
    return TextPattern(property(name, usual), fmt::format("type.{}", name), names);
  };
  Prompt prompt;
  prompt.system_layout = layout("system_format", "{system}", std::span(kPromptNames).first(1));
  prompt.turn = layout("format", "{instruction} {input} ", std::span(kPromptNames).subspan(1));
  prompt.alone = layout("no_input_format", "{instruction} ", std::span(kPromptNames).subspan(1, 1));
  prompt.instruction = column("field_instruction", "instruction", "");
  prompt.input = column("field_input", "input", "?");
  prompt.output = column("field_output", "output", "?");
  prompt.system_with_input = prompt.system_alone = property("system_prompt", "");
  prompt.system_column = property("field_system", "system");
  return prompt;
}

class InstructionRows : public RowBuilder {
 public:
  InstructionRows(Prompt prompt, const RowOptions& options, const text::Tokenizer& tokenizer)
      : tokenizer_(tokenizer), prompt_(std::move(prompt)), train_on_inputs_(options.train_on_inputs) {}

  void build(const Record& record, std::vector<Row>& rows) const override {
    const auto fill = [&](const TextPattern& pattern, std::string_view key) {
      return pattern.fill([&](std::string_view name) { return column_text(record, name, key); });
    };
    const std::string instruction = fill(prompt_.instruction, "field_instruction");
    Row row = learn_all(tokenizer_.encode(prompt_text(record, instruction, fill(prompt_.input, "field_input")), true));
    if (!train_on_inputs_) std::fill(row.labels.begin(), row.labels.end(), kIgnoredLabel);
    std::vector<int32_t> answer = encode_to_end(tokenizer_, fill(prompt_.output, "field_output"), prompt_.end_tokens);
    if (!answer.empty() && tokenizer_.bos_id() == answer.front()) answer.erase(answer.begin());
    row.input_ids.insert(row.input_ids.end(), answer.begin(), answer.end());
    row.labels.insert(row.labels.end(), answer.begin(), answer.end());
    rows.push_back(std::move(row));
  }

 private:
  [[nodiscard]] std::string system_text(const Record& record, bool has_input) const {
    if (!prompt_.system_column.empty() &&
        (prompt_.needs_system_column || given_field(record, prompt_.system_column) != nullptr))
      return text_of(record, required_field(record, prompt_.system_column, "field_system"), prompt_.system_column);
    return has_input ? prompt_.system_with_input : prompt_.system_alone;
  }

  [[nodiscard]] std::string prompt_text(const Record& record, const std::string& instruction,
                                        const std::string& input) const {
    const std::string system = system_text(record, !input.empty());
    const auto part = [&](std::string_view name) -> const std::string& {
      return name == "system" ? system : name == "instruction" ? instruction : input;
    };
    const std::string text = system.empty() ? "" : prompt_.system_layout.fill(part);
    return text + (input.empty() ? prompt_.alone : prompt_.turn).fill(part);
  }

  const text::Tokenizer& tokenizer_;
  Prompt prompt_;
  bool train_on_inputs_;
};

}  // namespace

std::unique_ptr<RowBuilder> make_instruction_rows(const DatasetConfig& config, const RowOptions& options,
                                                  const text::Tokenizer& tokenizer) {
  if (config.type.is_user_defined())
    return std::make_unique<InstructionRows>(user_defined_prompt(config), options, tokenizer);
  const auto kind = instruction_kind(config.type.name, place_of(config));
  if (!kind) return nullptr;
  return std::make_unique<InstructionRows>(prompt_of(*kind, config), options, tokenizer);
}

}  // namespace spillway::data
