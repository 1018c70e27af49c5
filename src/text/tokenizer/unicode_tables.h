// The tables behind code_points.h, made by tools/make_unicode_tables.py. Only code_points.cc includes this.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "text/tokenizer/code_points.h"

namespace spillway {

// Runs of code points of one category, ascending: first << 5 | Category, in hexadecimal
// (tokenizer/unicode_categories.txt).
extern const std::string_view kUnicodeCategories;

}  // namespace spillway

namespace spillway::text {

// A run of capitals: `delta` is added to every `step`-th code point of [first, last].
struct LowercaseRun {
  char32_t first, last;
  int32_t delta;
  char32_t step;
};
struct ScriptRange {
  uint32_t script;
  CodePointRange range;
};

extern const std::array<CodePointRange, 7> kRegexWordExtra;
extern const std::array<CodePointRange, 5> kWordExtra;
extern const std::array<CodePointRange, 2> kNumericExtra;
extern const std::array<CodePointRange, 9> kPunctuationExtra;
extern const std::array<CodePointRange, 39> kNotPunctuation;
extern const std::array<CodePointRange, 67> kUnnormalized;
extern const std::array<CodePointRange, 2> kNonspacingExtra;
extern const std::array<CodePointRange, 101> kNotNonspacing;
extern const std::array<CodePointRange, 1> kMarkExtra;
extern const std::array<CodePointRange, 87> kNotMark;
extern const std::array<CodePointRange, 25> kNoise;
extern const std::array<LowercaseRun, 185> kLowercaseRuns;
extern const std::array<std::string_view, 12> kScriptNames;
extern const std::array<ScriptRange, 221> kScriptRanges;

}  // namespace spillway::text
