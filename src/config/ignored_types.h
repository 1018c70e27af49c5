// The types of keys that are ignored. A list where axolotl or TRL want a mapping would stop those programs, too.
#pragma once

#include <string_view>

#include "config/values.h"

namespace spillway::config {

// Throws InputError at `place` where the value of an ignored key, as spelled, has another type than axolotl's schema
// and TRL's dataclasses declare (ignored_types.yml). A key that takes any type, or is not one of theirs, is fine.
void check_ignored_value(std::string_view key, const YamlNode& node, const KeyPlace& place);

}  // namespace spillway::config
