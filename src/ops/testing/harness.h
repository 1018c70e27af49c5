// Declarations for the parts of the harness of ops/testing.h.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/testing.h"

namespace spillway::ops::testing {

// Write and read an element.
void write_number(double number, DType dtype, std::byte* to);
[[nodiscard]] double read_number(DType dtype, const std::byte* from);

// Returns the device under test.
[[nodiscard]] TestDevice& tested_device();
// Calls body() while the CPU is the device under test.
void with_cpu(const std::function<void()>& body);

using RowsOf = std::vector<int64_t>;  // by axis; see RunOptions

// Returns the shape of a value in a run of so many rows.
[[nodiscard]] Shape cut_to_rows(const ValueType& type, const RowsOf& rows);

}  // namespace spillway::ops::testing
