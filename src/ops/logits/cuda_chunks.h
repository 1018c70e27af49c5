// The chunks in which the GPU goes through the rows of x w^T (logits/chunks.h says why), and their workspace.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "ops/logits/chunks.h"

namespace spillway::ops {

// Returns the rows of one chunk. The head's weights are read once for each chunk: with fewer than some 170 rows a
// product on an H200 would wait for them (790 TFLOP/s, 4.8 TB/s). More rows only cost memory.
[[nodiscard]] inline int64_t cuda_logit_chunk_rows(int64_t tokens, int64_t vocabulary) {
  constexpr int64_t kLogitsElems = int64_t{64} << 20;
  return std::min(tokens, std::clamp<int64_t>(kLogitsElems / vocabulary / 64 * 64, 128, 512));
}

// Offsets into the workspace.
struct CudaLogitWorkspace {
  static constexpr int64_t kProductBytes = int64_t{32} << 20;
  int64_t chunk_rows, logits, gradient, product, bytes = 0;

  explicit CudaLogitWorkspace(const LogitShape& s) : chunk_rows(cuda_logit_chunk_rows(s.tokens, s.vocabulary)) {
    const bool wants_gradient = s.x_gradient || s.w_gradient;
    logits = take(chunk_rows * s.vocabulary * size_of(DType::kF32));                     // f32 [chunk_rows, V]
    gradient = take(wants_gradient ? chunk_rows * s.vocabulary * size_of(s.dtype) : 0);  // of the logits
    product = take(kProductBytes);
  }

  // Takes more workspace, behind the rest.
  int64_t take(int64_t size) {
    const int64_t offset = bytes;
    bytes += align_up(size, 256);
    return offset;
  }
};

}  // namespace spillway::ops
