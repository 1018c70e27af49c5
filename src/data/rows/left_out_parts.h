// Counts of what chat templates leave out of the conversations of rows (text/left_out.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/left_out_kinds.h"

namespace spillway::text {
struct LeftOut;
}

namespace spillway::data {

struct Record;

struct LeftOutParts {
  std::array<int64_t, text::kLeftOutKinds> counts{};  // by text::LeftOutKind
  int64_t rows = 0;                                   // that something is left out of

  void add(text::LeftOutKind kind, int64_t count);
  void add(const LeftOutParts& more);
  [[nodiscard]] bool any() const { return rows > 0; }
};

// Returns true for a message, by its index, whose tokens are targets, or that is to be answered.
using IsLearned = std::function<bool(size_t message)>;

// Adds `parts`, which the template left out of `messages`, and the media of the record's own columns (`images`) to the
// counts of its row. Throws InputError naming the record's place for text, tool calls or media of a message that is
// learned; a thought beside text that is shown is counted.
void take_left_out(const Record& record, const nlohmann::ordered_json& messages,
                   const std::vector<text::LeftOut>& parts, const IsLearned& is_learned, LeftOutParts& counts);

// Returns the text of a warning that says what is left out of how many of `rows` rows, and what to do. REQUIRES:
// parts.any().
[[nodiscard]] std::string left_out_warning(const LeftOutParts& parts, int64_t rows);

// {"rows", "system", "developer", "user", "assistant", "tool", "other", "thoughts", "tool_calls", "media"}; the second
// throws what the JSON library throws.
[[nodiscard]] nlohmann::ordered_json to_json(const LeftOutParts& parts);
[[nodiscard]] LeftOutParts left_out_from_json(const nlohmann::ordered_json& json);

}  // namespace spillway::data
