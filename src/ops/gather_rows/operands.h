// The operands of gather_rows.
#pragma once

namespace spillway::ops::gather_rows_op {

// kInverse is for the gradient alone.
enum Input : int { kX, kOrder, kInverse };

}  // namespace spillway::ops::gather_rows_op
