// The workspace of linear_cross_entropy on a GPU.
#pragma once

#include "ops/logits/cuda_chunks.h"

namespace spillway::ops {

struct CudaLossWorkspace : CudaLogitWorkspace {
  int64_t losses, correct;

  explicit CudaLossWorkspace(const LogitShape& shape)
      : CudaLogitWorkspace(shape),
        losses(take(shape.tokens * size_of(DType::kF32))),     // f32 [T]
        correct(take(shape.tokens * size_of(DType::kI32))) {}  // i32 [T]
};

}  // namespace spillway::ops
