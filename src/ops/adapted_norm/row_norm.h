// The operands of adapted_norm, and the computation for one row, shared by both backends.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/kernel.h"
#include "ops/optimizers/either_side.h"
#include "tensor/dtype.h"

namespace spillway::ops {

namespace adapted_norm_op {
enum Input : int { kSquares, kOverlap, kB };
}

template <typename T>
struct RowNorm {
  const float *squares, *overlap;
  const T* b;
  float* norms;
  int64_t rows, rank;
  double scale;

  explicit RowNorm(const KernelArgs& args)
      : squares(args.inputs[adapted_norm_op::kSquares].as<float>()),
        overlap(args.inputs[adapted_norm_op::kOverlap].as<float>()),
        b(args.inputs[adapted_norm_op::kB].as<T>()),
        norms(args.outputs[0].as<float>()),
        rows(args.inputs[adapted_norm_op::kB].shape[0]),
        rank(args.inputs[adapted_norm_op::kB].shape[1]),
        scale(args.attributes.real("scale")) {}

  SPILLWAY_EITHER_SIDE void compute(int64_t row) const {
    constexpr double kLeast = std::numeric_limits<float>::min();
    double sum = 0;
    for (int64_t j = 0; j < rank; ++j)
      sum += static_cast<double>(to_float(b[row * rank + j])) * static_cast<double>(overlap[j * rows + row]);
    const double square = static_cast<double>(squares[row]) + 2 * scale * sum;
    const double norm = square > 0 ? std::sqrt(square) : 0;
    norms[row] = static_cast<float>(norm > kLeast ? norm : kLeast);
  }
};

}  // namespace spillway::ops
