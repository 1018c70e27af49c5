#include "model/path_pattern.h"

#include <fmt/format.h>

#include "text/tokenizer/regex.h"

namespace spillway {

bool matches_path_end(std::string_view pattern, std::string_view path, std::string_view where) {
  const text::Regex regex(fmt::format("^(?:.*\\.)?(?:{})$", pattern), where);
  text::RegexScratch scratch;
  bool matches = false;
  regex.find_all(path, scratch, [&](size_t, size_t) { matches = true; });
  return matches;
}

}  // namespace spillway
