#include "infer/evaluation/exact_match.h"

#include <algorithm>

#include "base/index.h"
#include "text/jinja/unicode.h"

namespace spillway::infer {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_punctuation(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return c > ' ' && c < '\x7F' && !is_letter && !is_digit(c);
}

std::string stripped(std::string_view text) { return std::string(text::jinja::strip(text, true, true, nullptr)); }

std::string compared(const ExactRules& rules, std::string text) {
  for (const text::PythonRegex& pattern : rules.ignored) text = pattern.removed(text);
  if (rules.ignores_case) text = text::jinja::lower(text);
  if (rules.ignores_punctuation) std::erase_if(text, is_punctuation);
  if (rules.ignores_numbers) std::erase_if(text, is_digit);
  return text;
}

}  // namespace

std::string extracted(const ExactRules& rules, const std::string& answer) {
  if (!rules.extract) return rules.strips ? stripped(answer) : answer;
  const std::vector<std::vector<std::string>> matches = rules.extract->find_all(answer);
  const int64_t place = rules.match < 0 ? std::ssize(matches) + rules.match : rules.match;
  if (place < 0 || place >= std::ssize(matches)) return rules.fallback;
  const std::vector<std::string>& groups = nth(matches, place);
  if (groups.size() == 1) return stripped(groups.front());
  const auto group = std::find_if(groups.begin(), groups.end(), [](const std::string& one) { return !one.empty(); });
  return group == groups.end() ? stripped(rules.fallback) : stripped(*group);
}

bool matches_one(const ExactRules& rules, const std::string& extracted, std::span<const std::string> targets) {
  const std::string answer = compared(rules, extracted);
  return std::any_of(targets.begin(), targets.end(),
                     [&](const std::string& target) { return compared(rules, target) == answer; });
}

std::string cut_at_stops(std::string answer, std::span<const std::string> stops) {
  for (const std::string& stop : stops) answer.resize(std::min(answer.size(), answer.find(stop)));
  return answer;
}

}  // namespace spillway::infer
