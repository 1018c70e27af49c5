// How much memory records take while they wait.
#pragma once

#include <cstdint>

#include "data/files/record_reader.h"

namespace spillway::data {

// Of the record with all its values and names, about.
[[nodiscard]] int64_t held_bytes(const Record& record);

}  // namespace spillway::data
