#include "ops/attention/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

// Row by row and head by head, as the definition reads.
Numbers reference_attention(const std::vector<Numbers>& in, const ops::AttentionOptions& options) {
  const int64_t heads = options.heads, kv_heads = options.kv_heads, size = options.head_size;
  const int64_t tokens = static_cast<int64_t>(in[0].size()) / (heads * size);
  Numbers out(in[0].size(), 0.0);
  for (int64_t token = 0; token < tokens; ++token) {
    int64_t begin = 0;
    for (const double offset : in[3]) {
      if (offset <= static_cast<double>(token)) begin = static_cast<int64_t>(offset);
    }
    if (options.sliding_window > 0) begin = std::max(begin, token - options.sliding_window + 1);
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t kv = head * kv_heads / heads;
      const auto at = [&](int which, int64_t t, int64_t h, int64_t of, int64_t i) {
        return in[static_cast<size_t>(which)][static_cast<size_t>((t * of + h) * size + i)];
      };
      Numbers weights;
      double total = 0;
      for (int64_t key = begin; key <= token; ++key) {
        double score = 0;
        for (int64_t i = 0; i < size; ++i) score += at(0, token, head, heads, i) * at(1, key, kv, kv_heads, i);
        weights.push_back(std::exp(score * options.scale));
        total += weights.back();
      }
      for (int64_t key = begin; key <= token; ++key) {
        for (int64_t i = 0; i < size; ++i) {
          out[static_cast<size_t>((token * heads + head) * size + i)] +=
              weights[static_cast<size_t>(key - begin)] / total * at(2, key, kv, kv_heads, i);
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

}  // namespace

TEST_CASE("attention and its gradients agree with float64: packed sequences, grouped heads, windows") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    check_operation(attention_case(7, {0, 3, 7, 7, 7}, {2, 1, 4, 0, 0.5}, dtype));
    check_operation(attention_case(9, {0, 9}, {3, 3, 6, 0, 0.4}, dtype));
    check_operation(attention_case(12, {0, 5, 12}, {4, 2, 2, 3, 0.7}, dtype));
  }
}

TEST_CASE("attention takes heads of every usual size") {
  check_operation(attention_case(20, {0, 7, 20}, {2, 1, 72, 0, 0.1}, DType::kF32));
  check_operation(attention_case(20, {0, 20}, {1, 1, 136, 9, 0.1}, DType::kBF16));
}

TEST_CASE("attention crosses tiles of keys and queries") {
  OperationCase test = attention_case(150, {0, 10, 150, 150}, {2, 1, 4, 0, 0.5}, DType::kF32);
  check_operation(test);
  test = attention_case(150, {0, 150}, {1, 1, 4, 70, 0.5}, DType::kF32);
  check_operation(test);
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
}
