// Small configs for tests of keys.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace spillway::testing {

// Returns the smallest config that is valid, with a test's own lines behind it.
inline std::string small_config(std::string_view more) {
  return "base_model: ./m\nlearning_rate: 2e-4\ndatasets:\n  - path: a.jsonl\n    type: alpaca\n" + std::string(more);
}

// Returns `a.b: VALUE` as nested mappings on one line.
inline std::string nested_line(std::string_view key, std::string_view value) {
  std::string line, close;
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.'), close += '}') {
    line += fmt::format("{}: {{", key.substr(0, dot));
    key.remove_prefix(dot + 1);
  }
  return fmt::format("{}{}: {}{}\n", line, key, value, close);
}

}  // namespace spillway::testing
