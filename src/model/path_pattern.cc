#include "model/path_pattern.h"

#include <fmt/format.h>

namespace spillway {

PathPattern::PathPattern(std::string_view pattern, std::string_view where)
    : regex_(fmt::format("^(?:.*\\.)?(?:{})$", pattern), where) {}

bool PathPattern::matches(std::string_view path) {
  bool found = false;
  regex_.find_all(path, scratch_, [&](size_t, size_t) { found = true; });
  return found;
}

}  // namespace spillway
