// The operands of gated_add and of its gradient.
#pragma once

namespace spillway::ops::gated_add_op {

enum Input : int { kH, kX, kModulation, kSeqOffsets };
// The inputs of the gradient; the addend is that of dmodulation and may be absent.
enum GradInput : int { kGradX, kGradModulation, kGradSeqOffsets, kGradDy, kGradAddend };

}  // namespace spillway::ops::gated_add_op
