// The operands of embedding and of its gradient.
#pragma once

namespace spillway::ops::embedding_op {

// The inputs of embedding.
enum Input : int { kIds, kTable };
// The inputs of its gradient behind kIds; the addend may be absent.
enum GradInput : int { kDy = 1, kAddend };

}  // namespace spillway::ops::embedding_op
