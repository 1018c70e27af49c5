// axolotl's sample_packing: lines of whole rows.
#pragma once

#include "data/packing/lines.h"

namespace spillway::data {

// Packs the longest rows first, each into the first line that has room and fewer than `line_rows` rows (0: any number);
// gives at most as many lines as first fit decreasing. Lines and the rows in them come in the order of the rows.
// REQUIRES: no row is longer than `capacity`.
[[nodiscard]] Lines pack_first_fit(const RowTable& rows, int64_t capacity, int64_t line_rows = 0);

// Packs rows in their order; a line ends where the next row has no room.
[[nodiscard]] Lines pack_sequential(const RowTable& rows, int64_t capacity);

}  // namespace spillway::data
