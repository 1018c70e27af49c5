// Helpers of the descriptions of operations: checks of operand types for OpDef::infer, and the plain cost of a pass
// over memory.
#pragma once

#include <string_view>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/operation.h"

namespace spillway::ops {

// Returns true for f32 and bf16, the types of arithmetic.
[[nodiscard]] inline bool is_real(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

// Each throws InputError "[op] expected <what> ..., got <type>; ..." if `type` breaks the rule.
void expect_real(std::string_view op, std::string_view what, const ValueType& type);
void expect_f32(std::string_view op, std::string_view what, const ValueType& type);
void expect_rank(std::string_view op, std::string_view what, const ValueType& type, int rank);
void expect_shape(std::string_view op, std::string_view what, const ValueType& type, const Shape& shape);
void expect_same(std::string_view op, std::string_view what, const ValueType& type, const ValueType& like);
// Expects a vector of `dtype` with one number for each row of `rows`, per token if `rows` is.
void expect_row_numbers(std::string_view op, std::string_view what, const ValueType& type, DType dtype,
                        const ValueType& rows);
// Expects [1] of `dtype`.
void expect_scalar(std::string_view op, std::string_view what, const ValueType& type, DType dtype);
// Expects a whole number above zero that divides `whole`.
void expect_divides(std::string_view op, std::string_view what, int64_t part, int64_t whole);

// Returns the cost of moving every operand once through memory, with next to no arithmetic.
[[nodiscard]] Cost memory_cost(TypeList inputs, TypeList outputs, const Attributes& attributes);

}  // namespace spillway::ops
