#include "ops/swiglu/swiglu.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

Numbers reference_swiglu(const std::vector<Numbers>& in) {
  Numbers out = in[0];
  for (size_t i = 0; i < out.size(); ++i) out[i] = in[0][i] / (1 + std::exp(-in[0][i])) * in[1][i];
  return out;
}

Numbers reference_geglu(const std::vector<Numbers>& in) {
  constexpr double kRoot = 0.79788456080286535588, kCube = 0.044715;
  Numbers out = in[0];
  for (size_t i = 0; i < out.size(); ++i) {
    const double x = in[0][i];
    out[i] = 0.5 * x * (1 + std::tanh(kRoot * (x + kCube * x * x * x))) * in[1][i];
  }
  return out;
}

ValueId build_swiglu(Builder& b, const std::vector<ValueId>& in) { return ops::swiglu(b, in[0], in[1]); }

}  // namespace

TEST_CASE("swiglu and its gradients agree with float64") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const ValueType type{dtype, {6, 53}, kTokenAxis};
    check_operation({.tokens = 6,
                     .inputs = {{type, random_numbers(318, 1, 6)}, {type, random_numbers(318, 2)}},
                     .build = build_swiglu,
                     .reference = reference_swiglu});
  }
}

TEST_CASE("geglu and its gradients agree with float64") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const ValueType type{dtype, {6, 53}, kTokenAxis};
    check_operation({.tokens = 6,
                     .inputs = {{type, random_numbers(318, 1, 6)}, {type, random_numbers(318, 2)}},
                     .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::geglu(b, in[0], in[1]); },
                     .reference = reference_geglu});
  }
}

TEST_CASE("a gate by its sigmoid, a gate as it is, and their gradients agree with float64") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const ValueType type{dtype, {6, 53}, kTokenAxis};
    OperationCase test{.tokens = 6,
                       .inputs = {{type, random_numbers(318, 1, 6)}, {type, random_numbers(318, 2)}},
                       .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::glu(b, in[0], in[1]); },
                       .reference =
                           [](const std::vector<Numbers>& in) {
                             Numbers out = in[1];
                             for (size_t i = 0; i < out.size(); ++i) out[i] /= 1 + std::exp(-in[0][i]);
                             return out;
                           }};
    check_operation(test);
    test.build = [](Builder& b, const std::vector<ValueId>& in) { return ops::bilinear(b, in[0], in[1]); };
    test.reference = [](const std::vector<Numbers>& in) {
      Numbers out = in[1];
      for (size_t i = 0; i < out.size(); ++i) out[i] *= in[0][i];
      return out;
    };
    check_operation(test);
  }
}

TEST_CASE("swiglu neither overflows nor loses a far negative gate") {
  Graph graph;
  Builder b(graph);
  const ValueId gate = b.input("gate", {DType::kF32, {4}}, ValueKind::kBatch);
  const ValueId up = b.input("up", {DType::kF32, {4}}, ValueKind::kBatch);
  const ValueId out = ops::swiglu(b, gate, up);
  CHECK(Run(graph, {{gate, {-1e4, -200, 200, 1e4}}, {up, {1, 1, 1, 1}}}).numbers(out) == Numbers{0, 0, 200, 1e4});
}

TEST_CASE("swiglu refuses operands that differ") {
  Graph graph;
  Builder b(graph);
  const ValueId gate = b.input("gate", {DType::kF32, {4}}, ValueKind::kBatch);
  const ValueId up = b.input("up", {DType::kF32, {5}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::swiglu(b, gate, up),
                    "[swiglu] expected up as f32[4], got f32[5]; cast it or check the model's sizes");
}
