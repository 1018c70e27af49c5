// The operands of narrow_rows.
#pragma once

namespace spillway::ops::narrow_rows_op {

// The step may be absent.
enum Input : int { kValues, kX, kStep };

}  // namespace spillway::ops::narrow_rows_op
