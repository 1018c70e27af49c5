// Estimates the memory of records that wait.
#pragma once

#include <cstdint>

#include "data/files/record_reader.h"

namespace spillway::data {

// Returns the approximate size of the record with all its values and names.
[[nodiscard]] int64_t held_bytes(const Record& record);

}  // namespace spillway::data
