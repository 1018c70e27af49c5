#include "ops/attention/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "graph/autodiff.h"
#include "ops/add/add.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

// Computes attention row by row and head by head, as the definition reads. Keys are of another stream if it has
// offsets. `sinks` is empty if there are none.
Numbers reference_attention(const std::vector<Numbers>& in, const ops::AttentionOptions& options,
                            const Numbers& sinks = {}) {
  const int64_t heads = options.heads, kv_heads = options.kv_heads, size = options.head_size;
  const int64_t tokens = static_cast<int64_t>(in[0].size()) / (heads * size);
  const Numbers& key_offsets = in.size() > 4 ? in[4] : in[3];
  Numbers out(in[0].size(), 0.0);
  for (int64_t token = 0; token < tokens; ++token) {
    size_t next = 1;  // the offset after the token's sequence
    while (next < in[3].size() && in[3][next] <= static_cast<double>(token)) ++next;
    if (next == in[3].size()) break;
    auto begin = static_cast<int64_t>(key_offsets[next - 1]);
    const int64_t last = options.causal ? token : static_cast<int64_t>(key_offsets[next]) - 1;
    if (options.sliding_window > 0) begin = std::max(begin, token - options.sliding_window + 1);
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t kv = head * kv_heads / heads;
      const auto at = [&](int which, int64_t t, int64_t h, int64_t of, int64_t i) {
        return nth(nth(in, which), (t * of + h) * size + i);
      };
      Numbers weights;
      double total = sinks.empty() ? 0 : std::exp(nth(sinks, head));
      for (int64_t key = begin; key <= last; ++key) {
        double score = 0;
        for (int64_t i = 0; i < size; ++i) score += at(0, token, head, heads, i) * at(1, key, kv, kv_heads, i);
        score *= options.scale;
        if (options.soft_cap > 0) score = options.soft_cap * std::tanh(score / options.soft_cap);
        weights.push_back(std::exp(score));
        total += weights.back();
      }
      for (int64_t key = begin; key <= last; ++key) {
        for (int64_t i = 0; i < size; ++i) {
          nth(out, (token * heads + head) * size + i) +=
              nth(weights, key - begin) / total * at(2, key, kv, kv_heads, i);
        }
      }
    }
  }
  return out;
}

OperationCase attention_case(int64_t tokens, Numbers offsets, const ops::AttentionOptions& options, DType dtype) {
  const int64_t q = options.heads * options.head_size, k = options.kv_heads * options.head_size;
  OperationCase test{
      .tokens = tokens,
      .inputs = {{{dtype, {tokens, q}, kTokenAxis}, random_numbers(tokens * q, 1, 2)},
                 {{dtype, {tokens, k}, kTokenAxis}, random_numbers(tokens * k, 2, 2)},
                 {{dtype, {tokens, k}, kTokenAxis}, random_numbers(tokens * k, 3)},
                 {{DType::kI32, {static_cast<int64_t>(offsets.size())}}, offsets, false, true}},
      .build = [=](Builder& b,
                   const std::vector<ValueId>& in) { return ops::attention(b, in[0], in[1], in[2], in[3], options); },
      .reference = [=](const std::vector<Numbers>& in) { return reference_attention(in, options); }};
  if (dtype == DType::kBF16) {
    test.tolerance = 4e-3;             // probabilities are rounded, too, where products take pairs of bf16
    test.gradient_tolerance = 1.5e-2;  // its own o, rounded, is part of the gradient
  }
  return test;
}

// The queries of the case that attention_case() makes, over keys along another axis.
OperationCase cross_case(int64_t tokens, Numbers offsets, int64_t keys, Numbers key_offsets,
                         ops::AttentionOptions options, DType dtype) {
  options.causal = false;
  OperationCase test = attention_case(tokens, std::move(offsets), options, dtype);
  const int64_t width = options.kv_heads * options.head_size;
  test.gradient_tolerance *= 5;  // of a single key the gradient is what sums leave that cancel
  test.rows = keys;
  for (const size_t i : {1, 2}) {
    test.inputs[i] = {{dtype, {keys, width}, kRowAxis},
                      random_numbers(keys * width, 10 + i, 3.0 - static_cast<double>(i))};
  }
  const auto count = static_cast<int64_t>(key_offsets.size());
  test.inputs.push_back({{DType::kI32, {count}}, std::move(key_offsets), false, true, kRowAxis});
  test.build = [=](Builder& b, const std::vector<ValueId>& in) {
    return ops::cross_attention(b, in[0], in[1], in[2], in[3], in[4], options);
  };
  return test;
}

// The case of attention_case() or cross_case() with sinks, the last of its inputs.
OperationCase with_sinks(OperationCase test, const ops::AttentionOptions& options, DType dtype) {
  test.inputs.push_back({{dtype, {options.heads}}, random_numbers(options.heads, 7, 2)});
  test.build = [=](Builder& b, const std::vector<ValueId>& in) {
    return options.causal ? ops::attention(b, in[0], in[1], in[2], in[3], options, in[4])
                          : ops::cross_attention(b, in[0], in[1], in[2], in[3], in[4], options, in[5]);
  };
  test.reference = [=](const std::vector<Numbers>& in) {
    return reference_attention({in.begin(), in.end() - 1}, options, in.back());
  };
  return test;
}

}  // namespace

TEST_CASE("attention and its gradients agree with float64: packed sequences, grouped heads, windows") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    check_operation(attention_case(7, {0, 3, 7, 7, 7}, {2, 1, 4, 0, 0.5}, dtype));
    check_operation(attention_case(9, {0, 9}, {3, 3, 6, 0, 0.4}, dtype));
    check_operation(attention_case(12, {0, 5, 12}, {4, 2, 2, 3, 0.7}, dtype));
  }
}

TEST_CASE("attention with a cap of its scores and its gradients agree with float64") {
  const auto check = [](int64_t tokens, Numbers offsets, const ops::AttentionOptions& options, DType dtype) {
    OperationCase test = attention_case(tokens, std::move(offsets), options, dtype);
    test.gradient_tolerance *= 5;  // of a single key it is what sums leave that cancel
    check_operation(test);
  };
  // The caps are reached by most scores, in long sequences and in short ones.
  ops::AttentionOptions options{.heads = 4, .kv_heads = 2, .head_size = 16, .scale = 0.7, .soft_cap = 2};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    options.sliding_window = 3;
    check(12, {0, 5, 12}, options, dtype);
    options.sliding_window = 0;
    check(9, {0, 2, 4, 6, 9}, options, dtype);
  }
  options.scale = 0.3;
  check(150, {0, 10, 150, 150}, options, DType::kF32);
}

TEST_CASE(
    "attention with sinks and their gradients agree with float64: packed, grouped, windows, caps, other streams") {
  ops::AttentionOptions options{.heads = 4, .kv_heads = 2, .head_size = 8, .scale = 0.5};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    options.sliding_window = 0;
    check_operation(with_sinks(attention_case(9, {0, 2, 4, 6, 9}, options, dtype), options, DType::kF32));
    options.sliding_window = 3;
    options.soft_cap = 2;
    check_operation(with_sinks(attention_case(12, {0, 5, 12, 12}, options, dtype), options, DType::kBF16));
    options.soft_cap = 0;
  }
  options = {.heads = 2, .kv_heads = 1, .head_size = 4, .sliding_window = 70, .scale = 0.5};
  check_operation(with_sinks(attention_case(150, {0, 10, 150, 150}, options, DType::kF32), options, DType::kF32));
  // The first sequence has no keys: its tokens see their sinks alone.
  options.sliding_window = 0;
  options.causal = false;
  check_operation(with_sinks(cross_case(20, {0, 4, 20}, 18, {0, 0, 18}, options, DType::kF32), options, DType::kF32));
}

TEST_CASE("the gradient of sinks has the dtype that is asked for") {
  Graph graph{.axes = {{"tokens", 5}}};
  Builder b(graph);
  const ValueId q = b.input("q", {DType::kF32, {5, 8}, kTokenAxis}, ValueKind::kBatch);
  const ValueId sinks = b.input("sinks", {DType::kBF16, {2}}, ValueKind::kTrainableWeight);
  const ValueId offsets = b.input("offsets", {DType::kI32, {2}}, ValueKind::kBatch);
  const ValueId c = b.input("c", {DType::kF32, {5, 8}, kTokenAxis}, ValueKind::kBatch);
  const ValueId o = ops::attention(b, q, q, q, offsets, {.heads = 2, .kv_heads = 2, .head_size = 4}, sinks);
  const ValueId loss = weighted_sum(b, o, c);
  Numbers got[2];
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Graph with_gradient = graph;
    Builder backward(with_gradient);
    std::vector<WeightGradient> gradients = {{.weight = sinks, .dtype = dtype}};
    append_backward(backward, loss, gradients, ops::add);
    CHECK(with_gradient.value(gradients[0].gradient).type == ValueType{dtype, {2}});
    const Run run(with_gradient,
                  {{q, random_numbers(40, 1)}, {sinks, {1, -2}}, {offsets, {0, 5}}, {c, random_numbers(40, 2)}});
    got[dtype == DType::kBF16] = run.numbers(gradients[0].gradient);
  }
  CHECK(got[1] == rounded(got[0], DType::kBF16));
}

TEST_CASE("attention takes heads of every usual size") {
  OperationCase test = attention_case(20, {0, 7, 20}, {2, 1, 72, 0, 0.1}, DType::kF32);
  test.gradient_tolerance *= 5;  // of a single key it is what sums over a head leave that cancel
  check_operation(test);
  check_operation(attention_case(20, {0, 20}, {1, 1, 136, 9, 0.1}, DType::kBF16));
}

TEST_CASE("attention crosses tiles of keys and queries") {
  OperationCase test = attention_case(150, {0, 10, 150, 150}, {2, 1, 4, 0, 0.5}, DType::kF32);
  check_operation(test);
  test = attention_case(150, {0, 150}, {1, 1, 4, 70, 0.5}, DType::kF32);
  check_operation(test);
}

// Tensor cores multiply here whole pieces of a head, padded ones, more tiles than one both ways.
TEST_CASE("attention of bf16 crosses tiles: packed, grouped, wide heads, windows, caps, without a mask") {
  const auto check = [](OperationCase test) {
    test.gradient_tolerance *= 2;  // rows of many keys: each weight and each gradient of a score is rounded
    check_operation(test);
  };
  const Numbers packed = {0, 5, 70, 73, 73};
  ops::AttentionOptions options{.heads = 2, .kv_heads = 1, .head_size = 8, .scale = 0.35};
  check(attention_case(75, packed, options, DType::kBF16));
  options.kv_heads = 2;
  options.causal = false;
  check(cross_case(70, {0, 4, 70}, 68, {0, 65, 68}, options, DType::kBF16));
  options.heads = options.kv_heads = 1;
  check(attention_case(75, packed, options, DType::kBF16));
  options.causal = true;
  options.soft_cap = 2;
  check(attention_case(75, packed, options, DType::kBF16));
  options.soft_cap = 0;
  options.sliding_window = 40;
  check(attention_case(140, {0, 140}, options, DType::kBF16));
  options.sliding_window = 0;
  options.head_size = 80;
  options.scale = 0.11;
  check(attention_case(20, {0, 20}, options, DType::kBF16));
}

TEST_CASE("attention is shared between a library and our own kernels: short sequences, long ones, more than it takes") {
  ops::AttentionOptions options{.heads = 2, .kv_heads = 1, .head_size = 16, .scale = 0.25, .sequence_len = 8};
  check_operation(attention_case(20, {0, 5, 8, 20, 20}, options, DType::kBF16));
  Numbers offsets;
  for (int i = 0; i <= 24; ++i) offsets.push_back(std::min(40, 2 * i));
  options.sequence_len = 20;  // 16 sequences of at most 20 tokens
  check_operation(attention_case(40, offsets, options, DType::kBF16));
  options.sliding_window = 3;
  check_operation(attention_case(40, {0, 40}, options, DType::kBF16));
}

TEST_CASE("attention without a mask and its gradient agree with float64: packed sequences, grouped heads, tiles") {
  ops::AttentionOptions options{.heads = 2, .kv_heads = 1, .head_size = 4, .scale = 0.5, .causal = false};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    check_operation(attention_case(7, {0, 3, 7, 7, 7}, options, dtype));
    check_operation(attention_case(9, {0, 4, 7}, options, dtype));  // tokens of no sequence
  }
  options.heads = 1;
  check_operation(attention_case(140, {0, 10, 140, 140}, options, DType::kF32));
}

TEST_CASE("cross attention and its gradient agree with float64: shorter keys, longer ones, none, and keys of nobody") {
  const ops::AttentionOptions options{.heads = 2, .kv_heads = 2, .head_size = 4, .scale = 0.5};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    check_operation(cross_case(7, {0, 3, 7, 7}, 12, {0, 4, 12, 12}, options, dtype));
    check_operation(cross_case(9, {0, 4, 4, 8}, 7, {0, 0, 3, 6}, options, dtype));
  }
  const ops::AttentionOptions one{.heads = 1, .kv_heads = 1, .head_size = 4, .scale = 0.5};
  check_operation(cross_case(140, {0, 20, 140}, 9, {0, 4, 9}, one, DType::kF32));
  check_operation(cross_case(9, {0, 4, 9}, 140, {0, 20, 140}, one, DType::kF32));
  const ops::AttentionOptions grouped{.heads = 4, .kv_heads = 2, .head_size = 72, .scale = 0.1};
  check_operation(cross_case(5, {0, 2, 5}, 7, {0, 3, 7}, grouped, DType::kF32));
}

TEST_CASE("a library takes part in attention without a mask and in cross attention") {
  ops::AttentionOptions options{
      .heads = 2, .kv_heads = 1, .head_size = 16, .scale = 0.25, .sequence_len = 8, .causal = false};
  check_operation(attention_case(20, {0, 5, 8, 20, 20}, options, DType::kBF16));
  options.key_sequence_len = 6;  // sequence 1 has more keys, sequence 2 more queries, sequences 0 and 4 none
  check_operation(cross_case(30, {0, 4, 10, 20, 22, 30}, 22, {0, 0, 8, 12, 17, 22}, options, DType::kBF16));
  options.kv_heads = 2;
  check_operation(cross_case(16, {0, 8, 8, 16}, 12, {0, 4, 8, 12}, options, DType::kBF16));
}

TEST_CASE("attention without a mask costs twice what causal attention does, and cross attention what it sees") {
  Graph graph{.axes = {{"tokens", 64}}};
  Builder b(graph);
  const ValueId q = b.input("q", {DType::kF32, {64, 8}, kTokenAxis}, ValueKind::kBatch);
  const ValueId k = b.input("k", {DType::kF32, {24, 8}}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {4}}, ValueKind::kBatch);
  ops::AttentionOptions options{.heads = 2, .kv_heads = 2, .head_size = 4, .sequence_len = 32};
  (void)ops::attention(b, q, q, q, offsets, options);
  options.causal = false;
  (void)ops::attention(b, q, q, q, offsets, options);
  (void)ops::cross_attention(b, q, k, k, offsets, offsets, options);
  options.key_sequence_len = 8;
  (void)ops::cross_attention(b, q, k, k, offsets, offsets, options);
  const double causal = 4.0 * 64 * 16 * 8;
  CHECK(cost_of(graph, 0).flops == causal);
  CHECK(cost_of(graph, 1).flops == 2 * causal);
  CHECK(cost_of(graph, 2).flops == 4.0 * 64 * 24 * 8);
  CHECK(cost_of(graph, 3).flops == 4.0 * 64 * 8 * 8);
}

TEST_CASE("attention refuses windows without a mask, and keys of another stream under one") {
  Graph graph{.axes = {{"tokens", 4}, {"text", 6}}};
  Builder b(graph);
  const ValueId q = b.input("q", {DType::kF32, {4, 8}, kTokenAxis}, ValueKind::kBatch);
  const ValueId k = b.input("k", {DType::kF32, {6, 8}, kRowAxis}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {3}}, ValueKind::kBatch);
  const ValueId fewer = b.input("fewer", {DType::kI32, {2}}, ValueKind::kBatch);
  ops::AttentionOptions options{.heads = 2, .kv_heads = 2, .head_size = 4};
  CHECK_THROWS_WITH(
      (void)ops::cross_attention(b, q, k, k, offsets, offsets, options),
      "[attention] expected keys of the same tokens where attention is causal, got others; set causal to false");
  options.causal = false;
  CHECK_THROWS_WITH((void)ops::cross_attention(b, q, k, k, offsets, fewer, options),
                    "[attention] expected key_offsets as i32[3], got i32[2]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::cross_attention(b, q, k, q, offsets, offsets, options),
                    "[attention] expected v as f32[6:1, 8], got f32[4t, 8]; cast it or check the model's sizes");
  options.sliding_window = 3;
  CHECK_THROWS_WITH((void)ops::attention(b, q, q, q, offsets, options),
                    "[attention] expected no sliding window where attention is not causal, got 3; set it to 0");
}

TEST_CASE("attention refuses heads that do not divide and tensors of another width") {
  Graph graph{.axes = {{"tokens", 4}}};
  Builder b(graph);
  const ValueId q = b.input("q", {DType::kF32, {4, 12}, kTokenAxis}, ValueKind::kBatch);
  const ValueId k = b.input("k", {DType::kF32, {4, 8}, kTokenAxis}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {2}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::attention(b, q, k, k, offsets, {3, 2, 4}),
                    "[attention] expected a number of key heads that divides 3, got 2; check the model's sizes");
  CHECK_THROWS_WITH((void)ops::attention(b, q, k, k, offsets, {3, 1, 4}),
                    "[attention] expected k as f32[4t, 4], got f32[4t, 8]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::attention(b, q, k, k, offsets, {2, 1, 4}),
                    "[attention] expected q as f32[4t, 8], got f32[4t, 12]; cast it or check the model's sizes");
  CHECK_THROWS_AS((void)ops::attention(b, q, k, k, offsets, {3, 3, 0}), InputError);
  const ValueId sinks = b.input("sinks", {DType::kF32, {2}}, ValueKind::kFrozenWeight);
  CHECK_THROWS_WITH((void)ops::attention(b, q, q, q, offsets, {3, 3, 4}, sinks),
                    "[attention] expected sinks of shape [3], got f32[2]; check the model's sizes");
}
