// Decides if an answer is right: lm-evaluation-harness' exact_match, after its filters "regex" and "remove_whitespace".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/python_regex.h"

namespace spillway::infer {

struct ExactRules {
  // The part of an answer that is compared: match number `match` of `extract`, negative from the end, or `fallback`.
  // Without `extract`, the whole answer, stripped of white space or not.
  std::optional<text::PythonRegex> extract;
  int64_t match = 0;
  std::string fallback = "[invalid]";
  bool strips = false;
  // The parts that are removed from answer and targets, in this order.
  std::vector<text::PythonRegex> ignored;
  bool ignores_case = false, ignores_punctuation = false, ignores_numbers = false;  // the latter two: ASCII alone
};

// Returns the part of an answer that is compared. If a match has groups, the first group that is not empty counts,
// without white space around it.
[[nodiscard]] std::string extracted(const ExactRules& rules, const std::string& answer);
// Returns true if it equals one of the targets, each without the ignored parts.
[[nodiscard]] bool matches_one(const ExactRules& rules, const std::string& extracted,
                               std::span<const std::string> targets);

// Returns the answer up to the first occurrence of each stop string, cut by one string after the other as the harness
// does.
[[nodiscard]] std::string cut_at_stops(std::string answer, std::span<const std::string> stops);

}  // namespace spillway::infer
