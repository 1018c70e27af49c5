// Keys that are known and not followed: the table is data, config/unsupported_keys.yml, embedded in the program.
#pragma once

#include <vector>

#include "config/keys.h"

namespace spillway::config {

// The sections of the table, in its order, with these keys alone. Made once; any thread.
[[nodiscard]] const std::vector<KeySection>& unsupported_sections();

// Adds the table's keys to those of the section with the same title, if there are any.
void add_unsupported(KeySection& section);

}  // namespace spillway::config
