// The operands of rms_norm and of its gradient.
#pragma once

namespace spillway::ops::rms_norm_op {

// rms_norm has the first two, its gradient all of them. The addends are those of dx and dw; each may be absent.
enum Input : int { kX, kWeight, kRstd, kDy, kXAddend, kWeightAddend };

}  // namespace spillway::ops::rms_norm_op
