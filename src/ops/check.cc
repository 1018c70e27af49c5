#include "ops/check.h"

namespace spillway::ops {

void expect_real(std::string_view op, std::string_view what, const ValueType& type) {
  if (!is_real(type.dtype)) throw input_error(op, "expected {} in f32 or bf16, got {}; cast it", what, to_string(type));
}

void expect_f32(std::string_view op, std::string_view what, const ValueType& type) {
  if (type.dtype != DType::kF32) throw input_error(op, "expected {} in f32, got {}; cast it", what, to_string(type));
}

void expect_rank(std::string_view op, std::string_view what, const ValueType& type, int rank) {
  if (type.shape.rank() != rank)
    throw input_error(op, "expected {} with {} axes, got {}; reshape it", what, rank, to_string(type));
}

void expect_shape(std::string_view op, std::string_view what, const ValueType& type, const Shape& shape) {
  if (type.shape != shape) {
    throw input_error(op, "expected {} of shape {}, got {}; check the model's sizes", what, to_string(shape),
                      to_string(type));
  }
}

void expect_same(std::string_view op, std::string_view what, const ValueType& type, const ValueType& like) {
  if (type != like) {
    throw input_error(op, "expected {} as {}, got {}; cast it or check the model's sizes", what, to_string(like),
                      to_string(type));
  }
}

void expect_row_numbers(std::string_view op, std::string_view what, const ValueType& type, DType dtype,
                        const ValueType& rows) {
  expect_same(op, what, type, {dtype, {rows.shape[0]}, rows.axis});
}

void expect_scalar(std::string_view op, std::string_view what, const ValueType& type, DType dtype) {
  expect_same(op, what, type, {dtype, {1}});
}

void expect_divides(std::string_view op, std::string_view what, int64_t part, int64_t whole) {
  if (part <= 0 || whole % part != 0)
    throw input_error(op, "expected {} that divides {}, got {}; check the model's sizes", what, whole, part);
}

Cost memory_cost(TypeList inputs, TypeList outputs, const Attributes&) {
  Cost cost;
  for (const TypeList types : {inputs, outputs}) {
    for (const ValueType* type : types) cost.bytes += type ? static_cast<double>(type->bytes()) : 0;
  }
  return cost;
}

}  // namespace spillway::ops
