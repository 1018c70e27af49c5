// What every check of a loaded config asks.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "config/load.h"

namespace spillway::config {

struct Checks {
  LoadedConfig& loaded;
  Config& config = loaded.config;

  [[nodiscard]] bool given(std::string_view key) const { return loaded.given.find(key) != loaded.given.end(); }
  [[nodiscard]] std::string where(std::string_view key) const {
    const auto found = loaded.given.find(key);
    return found == loaded.given.end() ? std::string(key) : found->second;
  }
  void exclude(std::string_view one, bool one_set, std::string_view other, bool other_set) const {
    if (!one_set || !other_set || !given(one) || !given(other)) return;
    throw input_error(where(other), "expected {} or {}, got both; remove one", one, other);
  }
};

}  // namespace spillway::config
