// The parts of axolotl's prompt types: their columns, the text around them, and their system texts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::data {

// The text around a prompt, as patterns with {system}, {instruction} and {input}. `alone` is for a row without input.
struct PromptLayout {
  std::string_view system, turn, alone;
};

// A prompt type. `instruction`, `input` and `output` are patterns with the row's columns: {a|b} is the first of the two
// that the row has, {a?} may be missing, and {a*} is a list, shown as lines of `- "item"`.
struct InstructionKind {
  std::string_view type;
  PromptLayout layout;
  std::string_view instruction, input, output;
  std::string_view with_input, alone;   // the system text
  std::string_view system_column = {};  // takes its place where the type has one
  int end_tokens = 1;                   // EOS behind an answer
};

// Returns the kind for a config's `type`: `alpaca`, `alpaca:chat`, `alpaca_chat.load_qa`. Returns nothing for a type of
// another family and for a colon in place of a dot ("alpaca_chat:load_qa"); throws InputError for an unknown style
// ("alpaca:nosuch"), naming those that exist, with `where` as the place of `type`.
[[nodiscard]] std::optional<InstructionKind> instruction_kind(std::string_view type, std::string_view where);

// Returns true if a config may name another column in place of a kind's pattern: one column alone, or none.
[[nodiscard]] bool is_renamable(std::string_view pattern);

// Returns the names of all kinds, without styles.
[[nodiscard]] std::vector<std::string_view> instruction_types();

}  // namespace spillway::data
