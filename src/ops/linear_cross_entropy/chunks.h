// How linear_cross_entropy goes through its rows, and what its workspace holds. Shared by the description and the
// kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/matmul.h"
#include "base/math.h"

namespace spillway::ops {

// Large enough that packing the head's weights again for each chunk costs little beside the product, small enough that
// the logits do not decide the peak.
constexpr int64_t kLogitsBytes = int64_t{48} << 20;

[[nodiscard]] inline int64_t loss_chunk_rows(int64_t tokens, int64_t vocabulary) {
  const int64_t rows = kLogitsBytes / (vocabulary * int64_t{sizeof(float)});
  return std::min(tokens, std::max<int64_t>(16, rows / 16 * 16));
}

// Outputs: loss, correct, and the gradients that are asked for, of x and then of w.
[[nodiscard]] constexpr int gradient_count(size_t outputs) { return static_cast<int>(outputs) - 2; }

// Offsets into the workspace. `gradients`: 0 none, 1 of x, 2 of x and w.
struct LossWorkspace {
  int64_t chunk_rows, logits, rows, hidden, hidden_gradient, losses, correct, matmul, bytes;

  LossWorkspace(DType dtype, int64_t tokens, int64_t width, int64_t vocabulary, int gradients, int threads)
      : chunk_rows(loss_chunk_rows(tokens, vocabulary)) {
    bytes = 0;
    const auto take = [this](int64_t size) {
      const int64_t offset = bytes;
      bytes += align_up(size, 64);
      return offset;
    };
    const int64_t row_bytes = width * size_of(dtype);
    logits = take(chunk_rows * vocabulary * int64_t{sizeof(float)});  // f32 [chunk_rows, V], then their gradient
    rows = take(tokens * int64_t{sizeof(int32_t)});                   // i32 [T]: the tokens that are targets
    losses = take(tokens * int64_t{sizeof(float)});                   // f32 [T]
    correct = take(tokens * int64_t{sizeof(int32_t)});                // i32 [T]: 1 where the label is the likeliest
    hidden = take(chunk_rows * row_bytes);                            // [chunk_rows, D], gathered
    hidden_gradient = take(gradients >= 1 ? chunk_rows * row_bytes : 0);
    int64_t most = cpu::matmul_workspace_bytes({chunk_rows, vocabulary, width, false, true}, dtype, dtype, threads);
    if (gradients >= 1)
      most = std::max(
          most, cpu::matmul_workspace_bytes({chunk_rows, width, vocabulary, false, false}, dtype, dtype, threads));
    if (gradients >= 2)
      most = std::max(most,
                      cpu::matmul_workspace_bytes({vocabulary, width, chunk_rows, true, false}, dtype, dtype, threads));
    matmul = take(most);
  }
};

}  // namespace spillway::ops
