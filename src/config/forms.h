// What values look like that nobody reads: those of keys that are ignored, as axolotl's schema and TRL's dataclasses
// declare them. A list where they want a mapping would stop their programs, too.
#pragma once

#include <string_view>

#include "config/values.h"

namespace spillway::config {

// Throws InputError at `place` where the value of an ignored key, as spelled, has another form than those programs
// take. A key that takes any form, or is not one of theirs, is fine.
void check_form(std::string_view key, const YamlNode& node, const KeyPlace& place);

}  // namespace spillway::config
