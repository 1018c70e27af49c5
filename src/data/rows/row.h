// One tokenised row: its tokens, and named columns of numbers, one per token or one per row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/dataset_options.h"
#include "data/rows/left_out_parts.h"

namespace spillway::data {

// A column beside the tokens; its numbers are i32.
struct RowColumn {
  enum class Axis { kToken, kRow };
  std::string_view name;
  Axis axis = Axis::kToken;

  bool operator==(const RowColumn&) const = default;
};

// The columns of an objective's rows. "labels" comes first if there is one.
using RowSchema = std::span<const RowColumn>;

// The columns of text: a label is the token's id if it is to be learned, else -100. For rows of steps it is 0 or 1 at
// the last token of a step.
inline constexpr RowColumn kTextColumns[] = {{"labels", RowColumn::Axis::kToken}};
// The columns of pairs. The tokens are those of the prompt, the chosen and the rejected completion, one after the
// other.
inline constexpr RowColumn kPairColumns[] = {{"prompt_tokens", RowColumn::Axis::kRow},
                                             {"chosen_tokens", RowColumn::Axis::kRow}};
// The columns of a reward model's rows, two whole conversations, the chosen one first. The margin is the bits of an
// f32.
inline constexpr RowColumn kRewardColumns[] = {{"prompt_tokens", RowColumn::Axis::kRow},
                                               {"chosen_tokens", RowColumn::Axis::kRow},
                                               {"margin", RowColumn::Axis::kRow}};
// The columns of unpaired rows. The tokens are those of the prompt and the completion; the label is 1 if that is
// desirable, else 0.
inline constexpr RowColumn kUnpairedColumns[] = {{"prompt_tokens", RowColumn::Axis::kRow},
                                                 {"label", RowColumn::Axis::kRow}};

[[nodiscard]] constexpr RowSchema schema_of(Objective objective) {
  if (!has_completions(objective)) return kTextColumns;
  if (objective == Objective::kUnpaired) return kUnpairedColumns;
  if (objective == Objective::kReward) return kRewardColumns;
  return kPairColumns;
}

// The ends of answers that a row teaches.
struct RowEnds {
  bool has_answer = false;   // some of the row is somebody's answer, and learned
  std::vector<int32_t> ids;  // the tokens that end answers in it and are learned, each once
};

struct Row {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> labels;  // the column of this name, as many as ids; empty where the schema has none
  int64_t cut_tokens = 0;       // that its type left out
  std::vector<int32_t> values;  // the schema's columns per row, in their order
  LeftOutParts left_out;        // of the conversation that it was made of
  bool joins_prompt = false;    // the tokens of prompt and completion together do not begin with those of the prompt
  RowEnds ends;                 // before it is cut
  int64_t copy = 0;             // Record::copy

  // Returns the largest of ids and labels: either may be outside of a model's vocabulary.
  [[nodiscard]] int32_t largest_id() const {
    int32_t largest = -1;
    for (const auto* numbers : {&input_ids, &labels}) {
      for (const int32_t id : *numbers) largest = std::max(largest, id);
    }
    return largest;
  }
};

// The label of a token that is not a target, as in PyTorch.
constexpr int32_t kIgnoredLabel = -100;

}  // namespace spillway::data
