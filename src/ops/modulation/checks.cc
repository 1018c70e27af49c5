#include "ops/check.h"
#include "ops/modulation/modulation.h"

namespace spillway::ops {

void expect_modulation(std::string_view op, const ValueType& x, const ValueType& rows, const ValueType& seq_offsets,
                       int64_t part) {
  expect_f32(op, "modulation", rows);
  expect_rank(op, "modulation", rows, 2);
  expect_divides(op, "a width of x", x.shape[1], rows.shape[1]);
  if (part < 0 || part >= rows.shape[1] / x.shape[1]) {
    throw input_error(op, "expected one of the modulation's {} parts, got number {}; check the model's sizes",
                      rows.shape[1] / x.shape[1], part);
  }
  expect_rank(op, "seq_offsets", seq_offsets, 1);
  if (seq_offsets.dtype != DType::kI32 || seq_offsets.follows_axis() || seq_offsets.shape[0] <= rows.shape[0]) {
    throw input_error(op, "expected seq_offsets as i32 of at least {}, got {}; check the model's sizes",
                      rows.shape[0] + 1, to_string(seq_offsets));
  }
}

}  // namespace spillway::ops
