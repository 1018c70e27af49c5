// What the descriptions of operations share: checks of operand types for OpDef::infer, and the plain cost of a pass
// over memory.
#pragma once

#include <string_view>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/operation.h"

namespace spillway::ops {

// f32 or bf16: what arithmetic runs on.
[[nodiscard]] inline bool is_real(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

// Each throws InputError "[op] expected <what> ..., got <type>; ..." where `type` breaks the rule.
void expect_real(std::string_view op, std::string_view what, const ValueType& type);
void expect_f32(std::string_view op, std::string_view what, const ValueType& type);
void expect_rank(std::string_view op, std::string_view what, const ValueType& type, int rank);
void expect_shape(std::string_view op, std::string_view what, const ValueType& type, const Shape& shape);
void expect_same(std::string_view op, std::string_view what, const ValueType& type, const ValueType& like);
// A vector of `dtype` with one number for each row of `rows`, and per token where `rows` is.
void expect_row_numbers(std::string_view op, std::string_view what, const ValueType& type, DType dtype,
                        const ValueType& rows);
// [1] of `dtype`.
void expect_scalar(std::string_view op, std::string_view what, const ValueType& type, DType dtype);
// A whole number that divides `whole`, above zero.
void expect_divides(std::string_view op, std::string_view what, int64_t part, int64_t whole);

// Every operand once through memory, and next to no arithmetic.
[[nodiscard]] Cost memory_cost(TypeList inputs, TypeList outputs, const Attributes& attributes);

}  // namespace spillway::ops
