#include "text/tokenizer/code_points.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/tokenizer/unicode_tables.h"

namespace spillway::text {
namespace {

constexpr std::array<std::string_view, 30> kCategoryNames = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};
constexpr std::array<std::pair<std::string_view, char>, 8> kLongNames = {{{"Letter", 'L'},
                                                                          {"Mark", 'M'},
                                                                          {"Number", 'N'},
                                                                          {"Punctuation", 'P'},
                                                                          {"Punct", 'P'},
                                                                          {"Symbol", 'S'},
                                                                          {"Separator", 'Z'},
                                                                          {"Other", 'C'}}};

// Returns kUnicodeCategories as numbers.
const std::vector<uint32_t>& category_runs() {
  static const std::vector<uint32_t> runs = [] {
    std::vector<uint32_t> result;
    const char *at = kUnicodeCategories.data(), *const end = at + kUnicodeCategories.size();
    for (uint32_t run = 0; at < end; ++at) {  // a separator stands behind each
      at = std::from_chars(at, end, run, 16).ptr;
      result.push_back(run);
    }
    return result;
  }();
  return runs;
}

std::string_view category_name(char32_t c) {
  const std::vector<uint32_t>& runs = category_runs();
  const auto next = std::upper_bound(runs.begin(), runs.end(), static_cast<uint32_t>(c << 5 | 31));
  return kCategoryNames[*(next - 1) & 31];
}

bool in_ranges(std::span<const CodePointRange> ranges, char32_t c) {
  const auto next = std::upper_bound(ranges.begin(), ranges.end(), c,
                                     [](char32_t value, const CodePointRange& range) { return value < range.first; });
  return next != ranges.begin() && c <= (next - 1)->last;
}

template <typename Test>
CodePointSet categories(const Test& belongs) {
  const std::vector<uint32_t>& runs = category_runs();
  std::vector<CodePointRange> ranges;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!belongs(kCategoryNames[runs[i] & 31])) continue;
    const char32_t last = i + 1 < runs.size() ? (runs[i + 1] >> 5) - 1 : kMaxCodePoint;
    ranges.push_back({runs[i] >> 5, last});
  }
  return CodePointSet(std::move(ranges));
}

bool is_word_category(std::string_view name) {
  return name[0] == 'L' || name[0] == 'M' || name == "Nd" || name == "Nl" || name == "Pc";
}

// Normalizes property names, which compare without case, spaces, `_` and `-`.
std::string loose(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    result.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return result;
}

}  // namespace

CodePointSet::CodePointSet(std::vector<CodePointRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  for (const CodePointRange& range : ranges) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

bool CodePointSet::contains(char32_t c) const { return in_ranges(ranges_, c); }

CodePointSet CodePointSet::united(const CodePointSet& other) const {
  std::vector<CodePointRange> ranges = ranges_;
  ranges.insert(ranges.end(), other.ranges_.begin(), other.ranges_.end());
  return CodePointSet(std::move(ranges));
}

CodePointSet CodePointSet::complement() const {
  std::vector<CodePointRange> ranges;
  char32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) ranges.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) ranges.push_back({next, kMaxCodePoint});
  return CodePointSet(std::move(ranges));
}

CodePointSet CodePointSet::intersected(const CodePointSet& other) const {
  return complement().united(other.complement()).complement();
}

std::optional<CodePointSet> property_set(std::string_view name) {
  const std::string wanted = loose(name);
  if (wanted == "any") return CodePointSet({{0, kMaxCodePoint}});
  for (const auto& [long_name, letter] : kLongNames) {
    if (wanted == loose(long_name))
      return categories([wanted_letter = letter](std::string_view k) { return k[0] == wanted_letter; });
  }
  for (const std::string_view category : kCategoryNames) {
    const std::string short_name = loose(category);
    if (wanted == short_name) return categories([&](std::string_view k) { return k == category; });
    if (wanted == short_name.substr(0, 1)) return categories([&](std::string_view k) { return k[0] == category[0]; });
  }
  for (size_t i = 0; i < kScriptNames.size(); ++i) {
    if (wanted != loose(kScriptNames[i])) continue;
    std::vector<CodePointRange> ranges;
    for (const ScriptRange& script : kScriptRanges) {
      if (script.script == i) ranges.push_back(script.range);
    }
    return CodePointSet(std::move(ranges));
  }
  return std::nullopt;
}

const CodePointSet& whitespace_set() {
  static const CodePointSet set({{0x09, 0x0D},
                                 {0x20, 0x20},
                                 {0x85, 0x85},
                                 {0xA0, 0xA0},
                                 {0x1680, 0x1680},
                                 {0x2000, 0x200A},
                                 {0x2028, 0x2029},
                                 {0x202F, 0x202F},
                                 {0x205F, 0x205F},
                                 {0x3000, 0x3000}});
  return set;
}

const CodePointSet& digit_set() {
  static const CodePointSet set = categories([](std::string_view k) { return k == "Nd"; });
  return set;
}

const CodePointSet& regex_word_set() {
  static const CodePointSet set =
      categories(is_word_category).united(CodePointSet({kRegexWordExtra.begin(), kRegexWordExtra.end()}));
  return set;
}

bool is_whitespace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D);
  return whitespace_set().contains(c);
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return category_name(c)[0] == 'N' || in_ranges(kNumericExtra, c);
}

bool is_punctuation(char32_t c) {
  if (category_name(c)[0] == 'P') return !in_ranges(kNotPunctuation, c);
  return in_ranges(kPunctuationExtra, c);
}

bool is_mark(char32_t c) {
  if (category_name(c)[0] == 'M') return !in_ranges(kNotMark, c);
  return in_ranges(kMarkExtra, c);
}

bool is_nonspacing_mark(char32_t c) {
  if (category_name(c) == "Mn") return !in_ranges(kNotNonspacing, c);
  return in_ranges(kNonspacingExtra, c);
}

bool is_noise(char32_t c) { return in_ranges(kNoise, c); }

bool is_word(char32_t c) { return is_word_category(category_name(c)) || in_ranges(kWordExtra, c); }

bool is_unnormalized(char32_t c) { return in_ranges(kUnnormalized, c); }

void append_lowercase(std::string& text, char32_t c) {
  if (c == 0x130) {  // the one letter whose lower case is two code points
    text += "i\xCC\x87";
    return;
  }
  const auto next = std::upper_bound(kLowercaseRuns.begin(), kLowercaseRuns.end(), c,
                                     [](char32_t value, const LowercaseRun& run) { return value < run.first; });
  if (next != kLowercaseRuns.begin()) {
    const LowercaseRun& run = *(next - 1);
    if (c <= run.last && (c - run.first) % run.step == 0)
      c = static_cast<char32_t>(static_cast<int32_t>(c) + run.delta);
  }
  append_utf8(text, c);
}

}  // namespace spillway::text
