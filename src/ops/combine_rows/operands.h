// The operands of combine_rows.
#pragma once

namespace spillway::ops::combine_rows_op {

// kOrder is for the gradient alone; the addend may be absent.
enum Input : int { kRows, kOrder, kInverse, kAddend };

}  // namespace spillway::ops::combine_rows_op
