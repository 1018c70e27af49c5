// Adds a config key to errors.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "base/error.h"

namespace spillway {

// Calls `action`, and prefixes its errors with the config key that they are about: "[key: where] ...".
template <typename Action>
void naming_key(std::string_view key, const Action& action) {
  const auto named = [key](std::string_view what) {
    const bool has_where = what.starts_with('[');
    return fmt::format("[{}{}{}", key, has_where ? ": " : "] ", what.substr(has_where ? 1 : 0));
  };
  try {
    action();
  } catch (const InputError& error) {
    throw InputError(named(error.what()));
  } catch (const MachineError& error) {
    throw MachineError(named(error.what()));
  }
}

}  // namespace spillway
