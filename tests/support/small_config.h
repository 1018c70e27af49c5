// The least that a config holds, and a test's own keys behind it.
#pragma once

#include <string>
#include <string_view>

namespace spillway::testing {

inline std::string small_config(std::string_view more) {
  return "base_model: ./m\nlearning_rate: 2e-4\ndatasets:\n  - path: a.jsonl\n    type: alpaca\n" + std::string(more);
}

}  // namespace spillway::testing
