#include "ops/add_expert_bias/add_expert_bias.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/sort_pairs/sort_pairs.h"
#include "ops/sort_pairs/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kBiasTokens = 11;

void check_bias(int64_t k, int64_t experts, int64_t width, DType dtype, const Numbers& chosen = {}) {
  OperandCase choice = experts_operand(kBiasTokens, k, experts);
  if (!chosen.empty()) choice.numbers = chosen;
  check_operation(
      {.tokens = kBiasTokens,
       .inputs = {choice,
                  {{dtype, {kBiasTokens, k * width}, kTokenAxis}, random_numbers(kBiasTokens * k * width, 2)},
                  {{dtype, {experts, width}}, random_numbers(experts * width, 3)}},
       .build =
           [=](Builder& b, const std::vector<ValueId>& in) {
             return ops::add_expert_bias(b, in[1], in[2], ops::sort_pairs(b, in[0], experts).offsets);
           },
       .reference =
           [=](const std::vector<Numbers>& in) {
             Numbers out = in[1];
             const std::vector<size_t> order = order_of(in[0]);
             for (size_t i = 0; i < out.size(); ++i) {
               const auto columns = static_cast<size_t>(width);
               out[i] += in[2][static_cast<size_t>(in[0][order[i / columns]]) * columns + i % columns];
             }
             return out;
           }});
}

}  // namespace

TEST_CASE("rows of pairs get their expert's bias, and a bias the gradients of its expert's rows") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check_bias(2, 5, 70, dtype);
    check_bias(1, 3, 300, dtype);
  }
  check_bias(2, 4, 6, DType::kF32, Numbers(size_t{2} * kBiasTokens, 3));  // the others have no rows
}

TEST_CASE("add_expert_bias refuses offsets of other experts") {
  Graph graph;
  Builder b(graph);
  const ValueId rows = b.input("rows", {DType::kF32, {3, 8}}, ValueKind::kBatch);
  const ValueId bias = b.input("bias", {DType::kF32, {5, 4}}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {5}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::add_expert_bias(b, rows, bias, offsets),
                    "[add_expert_bias] expected offsets as i32[6], got i32[5]; cast it or check the model's sizes");
}
