// axolotl's sample_packing: lines of whole rows.
#pragma once

#include "data/packing/lines.h"

namespace spillway::data {

// The longest rows first, each into the first line that has room and fewer than `line_rows` rows (0: any number): never
// more lines than first fit decreasing. Lines and the rows in them come in the order of the rows. REQUIRES: no row
// longer than `capacity`.
[[nodiscard]] Lines pack_first_fit(const RowTable& rows, int64_t capacity, int64_t line_rows = 0);

// Rows in their order; a line ends where the next row has no room.
[[nodiscard]] Lines pack_sequential(const RowTable& rows, int64_t capacity);

}  // namespace spillway::data
