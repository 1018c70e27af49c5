// Copies rows within a table, in place.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

//   table  [N, D] of any dtype
//   from   i32 [R], rows of the table
//   to     i32 [R], rows of the table
//
// Returns the table after row from[i] was copied to row to[i] for all i, and updates `table` so. It may take the
// table's place; then only those rows move. Rows outside the table are an internal error. No gradient. REQUIRES: no
// row that is copied is another one's target, and no row is a target twice.
ValueId copy_rows(Builder& builder, ValueId table, ValueId from, ValueId to);

}  // namespace spillway::ops
