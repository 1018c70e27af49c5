// PEFT's patterns for modules (get_pattern_key).
#pragma once

#include <string_view>

#include "text/tokenizer/regex.h"

namespace spillway {

// A regular expression for the end of a module's path behind a dot, or for all of it. For one thread at a time.
class PathPattern {
 public:
  // Throws InputError at `where` for what is no regular expression.
  PathPattern(std::string_view pattern, std::string_view where);

  [[nodiscard]] bool matches(std::string_view path);

 private:
  text::Regex regex_;
  text::RegexScratch scratch_;
};

}  // namespace spillway
