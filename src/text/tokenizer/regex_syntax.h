// Reads the regular expressions of tokenizer.json: Oniguruma's Ruby dialect, as far as split patterns use it.
//
// The result is a sequence of items: structure that means the same in PCRE2 (groups, bars, quantifiers, assertions)
// and sets of code points, one for each character, escape, property or bracket. Case-insensitive parts become sets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/code_points.h"

namespace spillway::text {

struct RegexItem {
  std::string structure;  // PCRE2 text, used where set < 0
  int set = -1;           // index into RegexSyntax::sets
};

struct RegexSyntax {
  std::vector<RegexItem> items;
  std::vector<CodePointSet> sets;  // without repetition; set 0 is the line feed
};

// Throws InputError at `where` for syntax that this dialect does not allow and that split patterns do not use: back
// references, named groups, POSIX brackets, case-insensitive letters beyond ASCII.
[[nodiscard]] RegexSyntax parse_regex(std::string_view pattern, std::string_view where);

}  // namespace spillway::text
