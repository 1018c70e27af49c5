// The operands of copy_rows.
#pragma once

namespace spillway::ops::copy_rows_op {

enum Input : int { kTable, kFrom, kTo };

}  // namespace spillway::ops::copy_rows_op
