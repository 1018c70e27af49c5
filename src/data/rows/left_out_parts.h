// Counts the parts of conversations that chat templates leave out (text/left_out.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/left_out_kinds.h"

namespace spillway::text {
struct ChatInput;
struct LeftOut;
}  // namespace spillway::text

namespace spillway::data {

struct Record;

struct LeftOutParts {
  std::array<int64_t, text::kLeftOutKinds> counts{};  // by text::LeftOutKind
  int64_t rows = 0;                                   // that something is left out of

  void add(text::LeftOutKind kind, int64_t count);
  void add(const LeftOutParts& more);
  [[nodiscard]] bool any() const { return rows > 0; }
};

// Returns true for the index of a message whose tokens are targets, or which is to be answered.
using IsLearned = std::function<bool(size_t message)>;

// Adds `parts`, which the template left out of `input`, and what the record has in columns that are not read (`images`,
// or `tools` where the input has none) to the counts of its row. Throws InputError naming the record's place if text,
// tool calls or media of a learned message are left out; reasoning beside text that is shown is only counted.
void take_left_out(const Record& record, const text::ChatInput& input, const std::vector<text::LeftOut>& parts,
                   const IsLearned& is_learned, LeftOutParts& counts);

// Returns a warning that says which parts of how many of `rows` rows are left out, and what to do. REQUIRES:
// parts.any().
[[nodiscard]] std::string left_out_warning(const LeftOutParts& parts, int64_t rows);

// The keys are "rows", "system", "developer", "user", "assistant", "tool", "other", "thoughts", "tool_calls", "media",
// "tools".
// left_out_from_json() throws the exceptions of the JSON library.
[[nodiscard]] nlohmann::ordered_json to_json(const LeftOutParts& parts);
[[nodiscard]] LeftOutParts left_out_from_json(const nlohmann::ordered_json& json);

}  // namespace spillway::data
