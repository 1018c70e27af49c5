// Tests the backward pass of whole graphs against finite differences.
#include "graph/autodiff.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "graph/verify.h"
#include "ops/add/add.h"
#include "ops/attention/cached_attention.h"
#include "ops/embedding/embedding.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/matmul/matmul.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/swiglu/swiglu.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kTokens = 7, kWidth = 6, kInner = 10, kVocabulary = 11;

// Computes y = x w', row by row.
Numbers times(const Numbers& x, const Numbers& w, int64_t width) {
  const auto n = static_cast<size_t>(width);
  Numbers y;
  for (size_t row = 0; row < x.size() / n; ++row) {
    for (size_t out = 0; out < w.size() / n; ++out) {
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += x[row * n + i] * w[out * n + i];
      y.push_back(sum);
    }
  }
  return y;
}

Numbers normed(Numbers x, const Numbers& w) {
  for (size_t begin = 0; begin < x.size(); begin += w.size()) {
    double squares = 0;
    for (size_t i = 0; i < w.size(); ++i) squares += x[begin + i] * x[begin + i];
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(w.size()) + 1e-5);
    for (size_t i = 0; i < w.size(); ++i) x[begin + i] *= rstd * w[i];
  }
  return x;
}

// Takes inputs ids, labels, scale, table, norm, gate, up, down. Builds a tied table, a norm, and an inner layer that
// stands twice.
ValueId build_network(Builder& b, const std::vector<ValueId>& in) {
  ValueId x = ops::embedding(b, in[0], in[3]);
  for (const char* name : {"layer 0", "layer 1"}) {
    b.begin_block(name);
    const ValueId y = ops::rms_norm(b, x, in[4], 1e-5);
    const ValueId inner = ops::swiglu(b, ops::linear(b, y, in[5]), ops::linear(b, y, in[6]));
    x = ops::linear(b, inner, in[7], {.addend = x});
    b.end_block();
  }
  x = ops::add(b, x, ops::rms_norm(b, x, in[4], 1e-5));
  return ops::linear_cross_entropy(b, x, in[3], in[1], in[2], ops::LossGradients::kInputAndWeight).loss;
}

Numbers reference_network(const std::vector<Numbers>& in) {
  Numbers x;
  for (const double id : in[0]) {
    const auto from = in[3].begin() + static_cast<int64_t>(id) * kWidth;
    x.insert(x.end(), from, from + kWidth);
  }
  for (int layer = 0; layer < 2; ++layer) {
    const Numbers y = normed(x, in[4]);
    Numbers inner = times(y, in[5], kWidth);
    const Numbers up = times(y, in[6], kWidth);
    for (size_t i = 0; i < inner.size(); ++i) inner[i] = inner[i] / (1 + std::exp(-inner[i])) * up[i];
    const Numbers more = times(inner, in[7], kInner);
    for (size_t i = 0; i < x.size(); ++i) x[i] += more[i];
  }
  const Numbers last = normed(x, in[4]);
  for (size_t i = 0; i < x.size(); ++i) x[i] += last[i];
  const Numbers logits = times(x, in[3], kWidth);
  double loss = 0;
  for (size_t row = 0; row < in[1].size(); ++row) {
    if (in[1][row] < 0) continue;
    double total = 0;
    for (size_t i = 0; i < kVocabulary; ++i) total += std::exp(logits[row * kVocabulary + i]);
    loss += std::log(total) - logits[row * kVocabulary + static_cast<size_t>(in[1][row])];
  }
  return {loss * in[2][0]};
}

OperationCase network_case(DType dtype) {
  const auto weight = [&](Shape shape, uint64_t seed) {
    return OperandCase{{dtype, shape}, random_numbers(shape.elems(), seed)};
  };
  Numbers labels = random_integers(kTokens, 5, kVocabulary);
  labels[2] = -100;
  return {.tokens = kTokens,
          .inputs = {{{DType::kI32, {kTokens}, kTokenAxis}, random_integers(kTokens, 4, kVocabulary), false},
                     {{DType::kI32, {kTokens}, kTokenAxis}, labels, false},
                     {{DType::kF32, {1}}, {0.25}, false},
                     weight({kVocabulary, kWidth}, 6),
                     weight({kWidth}, 7),
                     weight({kInner, kWidth}, 8),
                     weight({kInner, kWidth}, 9),
                     weight({kWidth, kInner}, 10)},
          .build = build_network,
          .reference = reference_network,
          .is_loss = true};
}

}  // namespace

TEST_CASE("the gradients of a network with residuals, tied and shared weights agree with finite differences") {
  OperationCase test = network_case(DType::kF32);
  test.gradient_tolerance = 2e-5;
  check_operation(test);
}

TEST_CASE("in bf16 the same network's gradients stay within the noise of its roundings") {
  OperationCase test = network_case(DType::kBF16);
  test.tolerance = test.gradient_tolerance = 3e-2;
  check_operation(test);
}

TEST_CASE("backward operations stand in the block of what they differentiate, and only needed ones are there") {
  Graph graph{.axes = {{"tokens", kTokens}}};
  Builder b(graph);
  const OperationCase test = network_case(DType::kF32);
  std::vector<ValueId> in;
  for (const OperandCase& operand : test.inputs) {
    in.push_back(b.input(fmt::format("in{}", in.size()), operand.type, ValueKind::kFrozenWeight));
  }
  std::vector<WeightGradient> gradients = {{.weight = in[7]}};
  append_backward(b, build_network(b, in), gradients, ops::add);
  for (const std::string& violation : verify(graph)) FAIL_CHECK(violation);
  std::vector<BlockId> differentiated;
  for (const Operation& op : graph.ops) {
    CHECK(op.def->name != "embedding_grad");  // nothing trainable stands before it
    if (op.def->name != "swiglu_grad") continue;
    CHECK(op.block == graph.value(op.inputs[0]).block);
    differentiated.push_back(op.block);
  }
  const bool only_the_second =
      differentiated == std::vector<BlockId>{1};  // before the first `down` nothing is trainable
  CHECK(only_the_second);
}

TEST_CASE("a backward pass names what stands in its way") {
  Graph graph{.axes = {{"tokens", 2}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {2, 3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId w = b.input("w", {DType::kF32, {4, 3}}, ValueKind::kTrainableWeight);
  const ValueId lone = b.input("lone", {DType::kF32, {4, 3}}, ValueKind::kTrainableWeight);
  const ValueId rows = b.input("rows", {DType::kI32, {2}, kTokenAxis}, ValueKind::kBatch);
  const ValueId keys = b.input("keys", {DType::kF32, {8, 4}}, ValueKind::kCache);
  const ops::CacheOperands cache{keys, keys, rows, rows};
  const ValueId attended =
      ops::decode_attention(b, ops::linear(b, x, w), cache, {.heads = 1, .kv_heads = 1, .head_size = 4});
  const ValueId c = b.input("c", b.type(attended), ValueKind::kBatch);
  const ValueId loss = weighted_sum(b, attended, c);
  std::vector<WeightGradient> gradients = {{.weight = w}};
  CHECK_THROWS_WITH(append_backward(b, loss, gradients, ops::add),
                    "[decode_attention] expected a differentiable operation on the way to a trainable weight, got "
                    "decode_attention.1; freeze what it depends on");
  std::vector<WeightGradient> unused = {{.weight = lone}};
  CHECK_THROWS_WITH(append_backward(b, loss, unused, ops::add),
                    "[lone] expected a weight that the loss depends on; freeze it");
}
