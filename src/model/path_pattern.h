// PEFT's patterns for modules (get_pattern_key).
#pragma once

#include <string_view>

#include "text/tokenizer/regex.h"

namespace spillway {

// A regular expression for a module's path, or for its end after a dot. Not thread-safe.
class PathPattern {
 public:
  // Throws InputError at `where` for an invalid regular expression.
  PathPattern(std::string_view pattern, std::string_view where);

  [[nodiscard]] bool matches(std::string_view path);

 private:
  text::Regex regex_;
  text::RegexScratch scratch_;
};

}  // namespace spillway
