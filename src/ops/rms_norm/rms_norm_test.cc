#include "ops/rms_norm/rms_norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "ops/add/add.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr double kRmsEps = 1e-5;

Numbers reference_norm(const std::vector<Numbers>& in) {
  const size_t group = in[1].size();
  Numbers out = in[0];
  for (size_t begin = 0; begin < out.size(); begin += group) {
    double squares = 0;
    for (size_t i = 0; i < group; ++i) squares += out[begin + i] * out[begin + i];
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(group) + kRmsEps);
    for (size_t i = 0; i < group; ++i) out[begin + i] *= rstd * in[1][i];
  }
  return out;
}

OperationCase norm_case(int64_t tokens, int64_t width, int64_t group, DType dtype, DType weight) {
  return {.tokens = tokens,
          .inputs = {{{dtype, {tokens, width}, kTokenAxis}, random_numbers(tokens * width, 1)},
                     {{weight, {group}}, random_numbers(group, 2)}},
          .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::rms_norm(b, in[0], in[1], kRmsEps); },
          .reference = reference_norm};
}

}  // namespace

TEST_CASE("rms_norm and its gradients agree with float64, over rows and over groups of a row") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check_operation(norm_case(5, 77, 77, dtype, DType::kF32));
    check_operation(norm_case(6, 24, 8, dtype, DType::kBF16));
    check_operation(norm_case(3, 2100, 1050, dtype, DType::kF32));  // whole blocks of threads on a GPU
  }
  check_operation(norm_case(70, 20, 20, DType::kF32, DType::kF32));  // several blocks of rows
}

TEST_CASE("rms_norm of weights that are kept as what they differ from one agrees with float64") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (OperationCase test : {norm_case(6, 24, 8, dtype, dtype), norm_case(3, 2100, 1050, dtype, DType::kF32)}) {
      test.build = [](Builder& b, const std::vector<ValueId>& in) {
        return ops::rms_norm(b, in[0], in[1], kRmsEps, 1);
      };
      test.reference = [](std::vector<Numbers> in) {
        for (double& weight : in[1]) ++weight;
        return reference_norm(in);
      };
      check_operation(test);
    }
  }
}

TEST_CASE("the gradients of a weight that two norms share add up, and those of what two operations read") {
  OperationCase test = norm_case(4, 33, 33, DType::kF32, DType::kF32);
  test.build = [](Builder& b, const std::vector<ValueId>& in) {
    return ops::add(b, in[0], ops::rms_norm(b, ops::rms_norm(b, in[0], in[1], kRmsEps), in[1], kRmsEps));
  };
  test.reference = [](const std::vector<Numbers>& in) {
    Numbers out = reference_norm({reference_norm(in), in[1]});
    for (size_t i = 0; i < out.size(); ++i) out[i] += in[0][i];
    return out;
  };
  check_operation(test);
}

TEST_CASE("rms_norm refuses a weight that does not divide the row") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3, 8}}, ValueKind::kBatch);
  const ValueId n = b.input("n", {DType::kI32, {3, 8}}, ValueKind::kBatch);
  const ValueId w = b.input("w", {DType::kF32, {3}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::rms_norm(b, x, w, kRmsEps),
                    "[rms_norm] expected a size of w that divides 8, got 3; check the model's sizes");
  CHECK_THROWS_WITH((void)ops::rms_norm(b, n, w, kRmsEps),
                    "[rms_norm] expected x in f32 or bf16, got i32[3, 8]; cast it");
  CHECK_THROWS_WITH((void)ops::rms_norm(b, x, x, kRmsEps),
                    "[rms_norm] expected w with 1 axes, got f32[3, 8]; reshape it");
}
