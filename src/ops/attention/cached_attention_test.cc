#include "ops/attention/cached_attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/index.h"
#include "graph/verify.h"
#include "ops/cache_append/cache_append.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kCapacity = 1300;

using Attend = ValueId (*)(Builder&, ValueId, const ops::CacheOperands&, const ops::AttentionOptions&, ValueId);

struct CacheSetting : ops::AttentionOptions {
  Numbers sinks = {};  // empty: none

  // Appends the sinks to a graph. Returns kNone if there are none.
  [[nodiscard]] ValueId append_sinks(Builder& b) const {
    return sinks.empty() ? kNone : b.input("sinks", {DType::kF32, {heads}}, ValueKind::kFrozenWeight);
  }
};

// The operations of a decoder on its cache for some new tokens.
struct Generation {
  Graph graph;
  Numbers sink_numbers;
  ValueId q, k, v, k_cache, v_cache, first, own, sinks, k_next, v_next, out;

  Generation(Attend attend, int64_t tokens, const CacheSetting& options, DType dtype) : sink_numbers(options.sinks) {
    graph.axes = {{"tokens", tokens}};
    Builder b(graph);
    const int64_t wide = options.heads * options.head_size, narrow = options.kv_heads * options.head_size;
    q = b.input("q", {dtype, {tokens, wide}, kTokenAxis}, ValueKind::kBatch);
    k = b.input("k", {dtype, {tokens, narrow}, kTokenAxis}, ValueKind::kBatch);
    v = b.input("v", {dtype, {tokens, narrow}, kTokenAxis}, ValueKind::kBatch);
    k_cache = b.input("k_cache", {dtype, {kCapacity, narrow}}, ValueKind::kCache);
    v_cache = b.input("v_cache", {dtype, {kCapacity, narrow}}, ValueKind::kCache);
    first = b.input("first", {DType::kI32, {tokens}, kTokenAxis}, ValueKind::kBatch);
    own = b.input("own", {DType::kI32, {tokens}, kTokenAxis}, ValueKind::kBatch);
    k_next = ops::cache_append(b, k_cache, k, own);
    v_next = ops::cache_append(b, v_cache, v, own);
    sinks = options.append_sinks(b);
    out = attend(b, q, {k_next, v_next, first, own}, options, sinks);
    for (const std::string& violation : verify(graph)) FAIL_CHECK(violation);
  }
};

Numbers part(const Numbers& all, int64_t width, int64_t begin, int64_t end) {
  return {all.begin() + begin * width, all.begin() + end * width};
}

// A sequence of random numbers.
struct Sequence {
  int64_t tokens, wide, narrow;
  Numbers q, k, v;

  Sequence(int64_t length, const ops::AttentionOptions& options, uint64_t seed, DType dtype = DType::kF32)
      : tokens(length),
        wide(options.heads * options.head_size),
        narrow(options.kv_heads * options.head_size),
        q(rounded(random_numbers(tokens * wide, seed), dtype)),
        k(rounded(random_numbers(tokens * narrow, seed + 1), dtype)),
        v(rounded(random_numbers(tokens * narrow, seed + 2), dtype)) {}
};

// Returns the result of attention on the whole of it, in f32.
Numbers attended(const Sequence& sequence, const CacheSetting& options) {
  Graph whole{.axes = {{"tokens", sequence.tokens}}};
  Builder b(whole);
  const auto input = [&](const char* name, int64_t width) {
    return b.input(name, {DType::kF32, {sequence.tokens, width}, kTokenAxis}, ValueKind::kBatch);
  };
  const ValueId q = input("q", sequence.wide), k = input("k", sequence.narrow), v = input("v", sequence.narrow);
  const ValueId offsets = b.input("offsets", {DType::kI32, {2}}, ValueKind::kBatch);
  const ValueId sinks = options.append_sinks(b), out = ops::attention(b, q, k, v, offsets, options, sinks);
  const Numbers both = {0, static_cast<double>(sequence.tokens)};
  std::map<ValueId, Numbers> numbers{{q, sequence.q}, {k, sequence.k}, {v, sequence.v}, {offsets, both}};
  if (sinks != kNone) numbers[sinks] = options.sinks;
  return Run(whole, numbers).numbers(out);
}

// Returns the result for the last token, in float64.
Numbers attended_by_last(const Sequence& sequence, const CacheSetting& options) {
  const int64_t size = options.head_size, last = sequence.tokens - 1, window = options.sliding_window;
  Numbers result;
  for (int64_t head = 0; head < options.heads; ++head) {
    const int64_t kv_head = head / (options.heads / options.kv_heads);
    Numbers sums(static_cast<size_t>(size));
    double total = options.sinks.empty() ? 0 : std::exp(nth(options.sinks, head));
    for (int64_t key = window > 0 ? std::max<int64_t>(0, last + 1 - window) : 0; key <= last; ++key) {
      const int64_t at = key * sequence.narrow + kv_head * size;
      double score = 0;
      for (int64_t i = 0; i < size; ++i)
        score += nth(sequence.q, last * sequence.wide + head * size + i) * nth(sequence.k, at + i);
      score *= options.scale;
      if (options.soft_cap > 0) score = options.soft_cap * std::tanh(score / options.soft_cap);
      total += std::exp(score);
      for (int64_t i = 0; i < size; ++i) nth(sums, i) += std::exp(score) * nth(sequence.v, at + i);
    }
    for (const double sum : sums) result.push_back(sum / total);
  }
  return result;
}

// Tokens [begin, end) of a sequence that has rows of the cache from `first` on.
struct Piece {
  const Sequence* sequence;
  int64_t first, begin, end;
};

// A cache over several runs.
struct Cache {
  Numbers k, v;
  explicit Cache(int64_t narrow) : k(static_cast<size_t>(kCapacity * narrow), 0.0), v(k) {}

  // Returns the result for each piece's tokens; new keys and values are in the cache from now on.
  std::vector<Numbers> run(const Generation& step, const std::vector<Piece>& pieces) {
    Numbers q, new_k, new_v, first, own;
    const auto append = [](Numbers& to, const Numbers& more) { to.insert(to.end(), more.begin(), more.end()); };
    for (const auto& [sequence, row, begin, end] : pieces) {
      append(q, part(sequence->q, sequence->wide, begin, end));
      append(new_k, part(sequence->k, sequence->narrow, begin, end));
      append(new_v, part(sequence->v, sequence->narrow, begin, end));
      for (int64_t i = begin; i < end; ++i) {
        first.push_back(static_cast<double>(row));
        own.push_back(static_cast<double>(row + i));
      }
    }
    const auto run_with = [&](const RunOptions& options) {
      std::map<ValueId, Numbers> numbers{{step.q, q},       {step.k, new_k},     {step.v, new_v}, {step.k_cache, k},
                                         {step.v_cache, v}, {step.first, first}, {step.own, own}};
      if (step.sinks != kNone) numbers[step.sinks] = step.sink_numbers;
      return Run(step.graph, numbers, options);
    };
    const auto rows = static_cast<int64_t>(own.size());
    const Run result = run_with({.rows = {rows}});
    const bool same_bits = result == run_with({.threads = 3, .rows = {rows}, .in_place = true});
    CHECK(same_bits);
    k = result.numbers(step.k_next);
    v = result.numbers(step.v_next);
    const Numbers all = result.numbers(step.out);
    std::vector<Numbers> out;
    int64_t row = 0;
    for (const auto& [sequence, at, begin, end] : pieces) {
      out.push_back(part(all, sequence->wide, row, row + end - begin));
      row += end - begin;
    }
    return out;
  }
};

const CacheSetting kSettings[] = {
    {{4, 2, 6, 0, 0.6}},
    {{4, 2, 6, 7, 0.6}},
    {{6, 1, 32, 70, 0.2}},
    {{2, 1, 72, 0, 0.1}},
    {{1, 1, 136, 0, 0.1}},
    {{.heads = 4, .kv_heads = 2, .head_size = 6, .sliding_window = 70, .scale = 0.6, .soft_cap = 0.5}},
    {{4, 2, 8, 7, 0.6}, {1, -0.5, 2, 0}}};

}  // namespace

TEST_CASE("a prompt in pieces and then token by token gives what attention gives on the whole sequence") {
  for (const CacheSetting& options : kSettings) {
    const Sequence sequence(80, options, 1);
    const Generation prompt(ops::cached_attention, 70, options, DType::kF32);
    const Generation decode(ops::decode_attention, 3, options, DType::kF32);
    Cache cache(sequence.narrow);
    Numbers got;
    int64_t start = 0;
    for (const int64_t rows : {69, 1, 1, 5, 1, 3}) {
      const Numbers piece = cache.run(rows == 1 ? decode : prompt, {{&sequence, 64, start, start + rows}})[0];
      got.insert(got.end(), piece.begin(), piece.end());
      start += rows;
    }
    check_close(got, attended(sequence, options), DType::kF32, 2e-6);
  }
}

TEST_CASE("a token that is decoded gets from few keys and from many what float64 gives") {
  const CacheSetting wide{{.heads = 12, .kv_heads = 2, .head_size = 128, .scale = 0.1}};
  const CacheSetting of_one_key{{.heads = 20, .kv_heads = 1, .head_size = 16, .scale = 0.3}};
  const CacheSetting capped{
      {.heads = 2, .kv_heads = 1, .head_size = 24, .sliding_window = 70, .scale = 0.6, .soft_cap = 0.5}};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const CacheSetting& options :
         {wide, of_one_key, capped, kSettings[0], kSettings[3], kSettings[4], kSettings[6]}) {
      const Generation decode(ops::decode_attention, 2, options, dtype);
      for (const int64_t tokens : {1, 64, 65, 300, 1100}) {
        const Sequence sequence(tokens, options, static_cast<uint64_t>(tokens), dtype);
        constexpr int64_t kFirst = 150;
        Cache cache(sequence.narrow);
        std::copy(sequence.k.begin(), sequence.k.end(), cache.k.begin() + kFirst * sequence.narrow);
        std::copy(sequence.v.begin(), sequence.v.end(), cache.v.begin() + kFirst * sequence.narrow);
        const Numbers got = cache.run(decode, {{&sequence, kFirst, tokens - 1, tokens}})[0];
        check_close(got, attended_by_last(sequence, options), dtype, dtype == DType::kF32 ? 2e-6 : 8e-3);
      }
    }
  }
}

TEST_CASE(
    "what a sequence's tokens get depends on no other sequence, on no place in the cache and on no cut, to the bit") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const CacheSetting& options : kSettings) {
      const Sequence a(130, options, 1, dtype), b(9, options, 5, dtype), c(40, options, 9, dtype);
      const Generation prompt(ops::cached_attention, 180, options, dtype);
      const Generation decode(ops::decode_attention, 3, options, dtype);
      Cache alone(a.narrow), together(a.narrow);
      const Numbers prompt_alone = alone.run(prompt, {{&a, 0, 0, 129}})[0];
      const Numbers token_alone = alone.run(decode, {{&a, 0, 129, 130}})[0];

      const auto first = together.run(prompt, {{&b, 256, 0, 8}, {&a, 64, 0, 50}, {&c, 0, 0, 39}});
      const auto second = together.run(prompt, {{&a, 64, 50, 129}});
      Numbers pieces = first[1];
      pieces.insert(pieces.end(), second[0].begin(), second[0].end());
      const auto tokens = together.run(decode, {{&c, 0, 39, 40}, {&a, 64, 129, 130}, {&b, 256, 8, 9}});
      const bool same = pieces == prompt_alone && tokens[1] == token_alone;
      CHECK(same);
    }
  }
}

TEST_CASE("a cache in bf16 holds what is left of f32 keys, and other rows stay") {
  Graph graph{.axes = {{"tokens", 2}}};
  Builder b(graph);
  const ValueId cache = b.input("cache", {DType::kBF16, {4, 2}}, ValueKind::kCache);
  const ValueId x = b.input("x", {DType::kF32, {2, 2}, kTokenAxis}, ValueKind::kBatch);
  const ValueId rows = b.input("rows", {DType::kI32, {2}, kTokenAxis}, ValueKind::kBatch);
  const ValueId next = ops::cache_append(b, cache, x, rows);
  const Run run(graph, {{cache, {1, 2, 3, 4, 5, 6, 7, 8}}, {x, {0.1, 0.2, 0.3, 0.4}}, {rows, {3, 1}}});
  const Numbers new_rows = rounded({0.1, 0.2, 0.3, 0.4}, DType::kBF16);
  CHECK(run.numbers(next) == Numbers{1, 2, new_rows[2], new_rows[3], 5, 6, new_rows[0], new_rows[1]});
}

TEST_CASE("the operations of generation refuse caches of another width") {
  Graph graph{.axes = {{"tokens", 2}}};
  Builder b(graph);
  const ValueId cache = b.input("cache", {DType::kF32, {4, 6}}, ValueKind::kCache);
  const ValueId x = b.input("x", {DType::kF32, {2, 4}, kTokenAxis}, ValueKind::kBatch);
  const ValueId rows = b.input("rows", {DType::kI32, {2}, kTokenAxis}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::cache_append(b, cache, x, rows),
                    "[cache_append] expected x as f32[2t, 6], got f32[2t, 4]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::cached_attention(b, x, {cache, cache, rows, rows}, {2, 1, 2}),
                    "[cached_attention] expected keys as f32[4, 2], got f32[4, 6]; cast it or check the model's sizes");
}
