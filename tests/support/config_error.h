// Checks the error for an invalid small config by the rules of all errors.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/load.h"
#include "tests/support/small_config.h"

namespace spillway::testing {

inline config::LoadedConfig load(std::string_view more = "", std::vector<config::ConfigOverride> overrides = {}) {
  return config::load_config(small_config(more), "c.yml", overrides, config::ConfigUse::kTrain);
}

// The same in a job of so many ranks; 0: as many as the config says.
inline config::LoadedConfig load_for_ranks(std::string_view more, int64_t ranks = 0) {
  return config::load_config(small_config(more), "c.yml", {}, config::ConfigUse::kTrain, ranks);
}
// Returns the first problem of such a config; empty if there is none.
inline std::string ranks_error(std::string_view more, int64_t ranks = 0) {
  return first_problem(config::check_config(small_config(more), "c.yml", {}, config::ConfigUse::kTrain, ranks));
}

// Returns the error for a config; empty if it is valid.
inline std::string error_of(std::string_view more, std::vector<config::ConfigOverride> overrides = {}) {
  try {
    (void)load(more, std::move(overrides));
  } catch (const InputError& error) {
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    CHECK(text.starts_with('['));
    CHECK(text.find("] expected ") != std::string::npos);
    CHECK(text.find(", got ") != std::string::npos);
    return text;
  }
  return "";
}

}  // namespace spillway::testing
