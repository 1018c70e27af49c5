// How the GPU's linear_cross_entropy goes through its rows, and what its workspace holds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "tensor/dtype.h"

namespace spillway::ops {

// Rows of one chunk. The head's weights are read once for each chunk: with fewer than some 170 rows a product on an
// H200 would wait for them (790 TFLOP/s, 4.8 TB/s). More rows cost memory alone.
[[nodiscard]] inline int64_t cuda_loss_chunk_rows(int64_t tokens, int64_t vocabulary) {
  constexpr int64_t kLogitsElems = int64_t{64} << 20;
  return std::min(tokens, std::clamp<int64_t>(kLogitsElems / vocabulary / 64 * 64, 128, 512));
}

// Offsets into the workspace.
struct CudaLossWorkspace {
  static constexpr int64_t kProductBytes = int64_t{32} << 20;
  int64_t chunk_rows, logits, gradient, losses, correct, product, bytes = 0;

  CudaLossWorkspace(DType dtype, int64_t tokens, int64_t vocabulary, bool wants_gradient)
      : chunk_rows(cuda_loss_chunk_rows(tokens, vocabulary)) {
    const auto take = [this](int64_t size) {
      const int64_t offset = bytes;
      bytes += align_up(size, 256);
      return offset;
    };
    logits = take(chunk_rows * vocabulary * size_of(DType::kF32));                   // f32 [chunk_rows, V]
    gradient = take(wants_gradient ? chunk_rows * vocabulary * size_of(dtype) : 0);  // of the logits
    losses = take(tokens * size_of(DType::kF32));                                    // f32 [T]
    correct = take(tokens * size_of(DType::kI32));                                   // i32 [T]
    product = take(kProductBytes);
  }
};

}  // namespace spillway::ops
