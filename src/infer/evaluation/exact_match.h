// When an answer is right: lm-evaluation-harness' exact_match, behind its filters "regex" and "remove_whitespace".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/python_regex.h"

namespace spillway::infer {

struct ExactRules {
  // What is compared of an answer: of the matches of `extract` the one of this number, negative from the end, or
  // `fallback`. Without `extract` the answer, stripped of white space or not.
  std::optional<text::PythonRegex> extract;
  int64_t match = 0;
  std::string fallback = "[invalid]";
  bool strips = false;
  // What is left out of answer and targets, in this order.
  std::vector<text::PythonRegex> ignored;
  bool ignores_case = false, ignores_punctuation = false, ignores_numbers = false;  // the latter two: ASCII alone
};

// Of a match with groups, the first group that is not empty counts, without white space around it.
[[nodiscard]] std::string extracted(const ExactRules& rules, const std::string& answer);
// Whether it equals one of the targets, each without what is ignored.
[[nodiscard]] bool matches_one(const ExactRules& rules, const std::string& extracted,
                               std::span<const std::string> targets);

// The answer up to the first place of each stop string, one string after the other, as the harness cuts it.
[[nodiscard]] std::string cut_at_stops(std::string answer, std::span<const std::string> stops);

}  // namespace spillway::infer
