#include "ops/cached_attention/cached_attention.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "graph/verify.h"
#include "ops/cache_append/cache_append.h"
#include "ops/gather_rows/gather_rows.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kCapacity = 300;

// What a decoder does with its cache for some new tokens.
struct Generation {
  Graph graph;
  ValueId q, k, v, k_cache, v_cache, start, k_next, v_next, out;

  Generation(int64_t tokens, const ops::AttentionOptions& options, DType dtype) {
    graph.tokens = tokens;
    Builder b(graph);
    const int64_t wide = options.heads * options.head_size, narrow = options.kv_heads * options.head_size;
    q = b.input("q", {dtype, {tokens, wide}, true}, ValueKind::kBatch);
    k = b.input("k", {dtype, {tokens, narrow}, true}, ValueKind::kBatch);
    v = b.input("v", {dtype, {tokens, narrow}, true}, ValueKind::kBatch);
    k_cache = b.input("k_cache", {dtype, {kCapacity, narrow}}, ValueKind::kCache);
    v_cache = b.input("v_cache", {dtype, {kCapacity, narrow}}, ValueKind::kCache);
    start = b.input("start", {DType::kI32, {1}}, ValueKind::kBatch);
    k_next = ops::cache_append(b, k_cache, k, start);
    v_next = ops::cache_append(b, v_cache, v, start);
    out = ops::cached_attention(b, q, k_next, v_next, start, options);
    for (const std::string& violation : verify(graph)) FAIL_CHECK(violation);
  }
};

Numbers part(const Numbers& all, int64_t width, int64_t begin, int64_t end) {
  return {all.begin() + begin * width, all.begin() + end * width};
}

}  // namespace

TEST_CASE("generation token by token or in pieces gives what attention gives on the whole sequence") {
  constexpr int64_t kTokens = 80;
  for (const ops::AttentionOptions& options :
       {ops::AttentionOptions{4, 2, 6, 0, 0.6}, {4, 2, 6, 7, 0.6}, {2, 1, 72, 0, 0.1}, {1, 1, 136, 0, 0.1}}) {
    const int64_t wide = options.heads * options.head_size, narrow = options.kv_heads * options.head_size;
    const Numbers q = random_numbers(kTokens * wide, 1), k = random_numbers(kTokens * narrow, 2),
                  v = random_numbers(kTokens * narrow, 3);
    Graph whole{.tokens = kTokens};
    Builder b(whole);
    const ValueId wq = b.input("q", {DType::kF32, {kTokens, wide}, true}, ValueKind::kBatch);
    const ValueId wk = b.input("k", {DType::kF32, {kTokens, narrow}, true}, ValueKind::kBatch);
    const ValueId wv = b.input("v", {DType::kF32, {kTokens, narrow}, true}, ValueKind::kBatch);
    const ValueId offsets = b.input("offsets", {DType::kI32, {2}}, ValueKind::kBatch);
    const ValueId out = ops::attention(b, wq, wk, wv, offsets, options);
    const Numbers want = Run(whole, {{wq, q}, {wk, k}, {wv, v}, {offsets, {0, kTokens}}}).numbers(out);

    const Generation step(70, options, DType::kF32);
    Numbers k_cache(static_cast<size_t>(kCapacity * narrow), 0.0), v_cache = k_cache, got;
    int64_t start = 0;
    for (const int64_t rows : {70, 1, 1, 5, 3}) {
      const auto run_at = [&](const RunOptions& run) {
        return Run(step.graph,
                   {{step.q, part(q, wide, start, start + rows)},
                    {step.k, part(k, narrow, start, start + rows)},
                    {step.v, part(v, narrow, start, start + rows)},
                    {step.k_cache, k_cache},
                    {step.v_cache, v_cache},
                    {step.start, {static_cast<double>(start)}}},
                   run);
      };
      const Run run = run_at({.rows = rows});
      const bool same_bits = run == run_at({.threads = 3, .rows = rows, .in_place = true});
      CHECK(same_bits);
      k_cache = run.numbers(step.k_next);
      v_cache = run.numbers(step.v_next);
      const Numbers piece = run.numbers(step.out);
      got.insert(got.end(), piece.begin(), piece.end());
      start += rows;
    }
    check_close(got, want, DType::kF32, 2e-6);
  }
}

TEST_CASE("a cache in bf16 holds what is left of f32 keys, and other rows stay") {
  Graph graph{.tokens = 2};
  Builder b(graph);
  const ValueId cache = b.input("cache", {DType::kBF16, {4, 2}}, ValueKind::kCache);
  const ValueId x = b.input("x", {DType::kF32, {2, 2}, true}, ValueKind::kBatch);
  const ValueId start = b.input("start", {DType::kI32, {1}}, ValueKind::kBatch);
  const ValueId next = ops::cache_append(b, cache, x, start);
  const Run run(graph, {{cache, {1, 2, 3, 4, 5, 6, 7, 8}}, {x, {0.1, 0.2, 0.3, 0.4}}, {start, {1}}});
  const Numbers new_rows = rounded({0.1, 0.2, 0.3, 0.4}, DType::kBF16);
  CHECK(run.numbers(next) == Numbers{1, 2, new_rows[0], new_rows[1], new_rows[2], new_rows[3], 7, 8});
}

TEST_CASE("rows are gathered by their index") {
  Graph graph{.tokens = 3};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kBF16, {3, 2}, true}, ValueKind::kBatch);
  const ValueId index = b.input("index", {DType::kI32, {2}}, ValueKind::kBatch);
  const ValueId y = ops::gather_rows(b, x, index);
  CHECK(b.type(y) == ValueType{DType::kBF16, {2, 2}});
  CHECK(Run(graph, {{x, {1, 2, 3, 4, 5, 6}}, {index, {2, 0}}}).numbers(y) == Numbers{5, 6, 1, 2});
  CHECK_THROWS_WITH((void)ops::gather_rows(b, x, x),
                    "[gather_rows] expected index with 1 axes, got bf16[3t, 2]; reshape it");
}

TEST_CASE("the operations of generation refuse caches of another width") {
  Graph graph{.tokens = 2};
  Builder b(graph);
  const ValueId cache = b.input("cache", {DType::kF32, {4, 6}}, ValueKind::kCache);
  const ValueId x = b.input("x", {DType::kF32, {2, 4}, true}, ValueKind::kBatch);
  const ValueId start = b.input("start", {DType::kI32, {1}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::cache_append(b, cache, x, start),
                    "[cache_append] expected x as f32[2t, 6], got f32[2t, 4]; cast it or check the model's sizes");
  CHECK_THROWS_WITH(
      (void)ops::cached_attention(b, x, cache, cache, start, {2, 1, 2}),
      "[cached_attention] expected k_cache as f32[4, 2], got f32[4, 6]; cast it or check the model's sizes");
}
