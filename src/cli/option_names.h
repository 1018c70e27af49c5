// The spelling of options, the same for every command.
#pragma once

#include <algorithm>
#include <string_view>

namespace spillway {

// Returns true if the names differ only by - and _ after their leading dashes: `--max_new_tokens` is
// `--max-new-tokens`. Keys of a config have _ in their names, as in its file, and options have -.
[[nodiscard]] inline bool is_same_option(std::string_view a, std::string_view b) {
  constexpr size_t kDashes = 2;
  const auto is_same = [](char x, char y) { return x == y || ((x == '-' || x == '_') && (y == '-' || y == '_')); };
  return a.substr(0, kDashes) == b.substr(0, kDashes) && std::equal(a.begin(), a.end(), b.begin(), b.end(), is_same);
}

}  // namespace spillway
