#include "model/gguf/weights.h"

#include <algorithm>

namespace spillway {
namespace {

// Returns the row of Hugging Face's that stands at row i of an interleaved head.
int64_t source_row(int64_t i, int64_t head_dim) { return i % 2 == 0 ? i / 2 : head_dim / 2 + i / 2; }

}  // namespace

void part_halves(const float* from, float* to, int64_t head_dim, int64_t row) {
  for (int64_t i = 0; i < head_dim; ++i) std::copy_n(from + i * row, row, to + source_row(i, head_dim) * row);
}

void interleave_halves(const float* from, float* to, int64_t head_dim, int64_t row) {
  for (int64_t i = 0; i < head_dim; ++i) std::copy_n(from + source_row(i, head_dim) * row, row, to + i * row);
}

}  // namespace spillway
