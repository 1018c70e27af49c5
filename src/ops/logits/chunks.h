// The chunks in which operations on the rows of x w^T go through them without ever having all, [tokens, vocabulary]: a
// few hundred rows each, whose logits, and then in the same memory their gradient, are workspace. Shared by
// descriptions and kernels of the CPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "ops/matmul/cpu/product.h"

namespace spillway::ops {

// The size of a chunk: large enough that packing the head's weights again for each costs little beside the product,
// small enough that the logits do not decide the peak.
constexpr int64_t kLogitsBytes = int64_t{48} << 20;

[[nodiscard]] inline int64_t logit_chunk_rows(int64_t tokens, int64_t vocabulary) {
  const int64_t rows = kLogitsBytes / (vocabulary * int64_t{sizeof(float)});
  return std::min(tokens, std::max<int64_t>(16, rows / 16 * 16));
}

struct LogitShape {
  DType dtype;  // of x and w
  int64_t tokens, width, vocabulary;
  bool x_gradient = false, w_gradient = false;  // whether they are wanted
};

// Offsets into the workspace.
struct LogitWorkspace {
  int64_t chunk_rows, logits, rows, hidden, hidden_gradient, matmul, bytes = 0;

  LogitWorkspace(const LogitShape& s, int threads) : chunk_rows(logit_chunk_rows(s.tokens, s.vocabulary)) {
    const int64_t row_bytes = s.width * size_of(s.dtype);
    logits = take(chunk_rows * s.vocabulary * int64_t{sizeof(float)});  // f32 [chunk_rows, V], then their gradient
    rows = take(s.tokens * int64_t{sizeof(int32_t)});                   // i32 [T]: the tokens that are targets
    hidden = take(chunk_rows * row_bytes);                              // [chunk_rows, D], gathered
    hidden_gradient = take(s.x_gradient ? chunk_rows * row_bytes : 0);
    const auto product = [&](const cpu::MatmulShape& shape) {
      return cpu::matmul_workspace_bytes(shape, s.dtype, s.dtype, threads);
    };
    int64_t most = product({chunk_rows, s.vocabulary, s.width, false, true});
    if (s.x_gradient) most = std::max(most, product({chunk_rows, s.width, s.vocabulary, false, false}));
    if (s.w_gradient) most = std::max(most, product({s.vocabulary, s.width, chunk_rows, true, false}));
    matmul = take(most);
  }

  // Takes more workspace, behind the rest.
  int64_t take(int64_t size) {
    const int64_t offset = bytes;
    bytes += align_up(size, 64);
    return offset;
  }
};

}  // namespace spillway::ops
