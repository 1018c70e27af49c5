#include "ops/gated_delta_rule/gated_delta_rule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/index.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

// Five sequences: of two chunks and a part, an empty one, one token, a chunk and a token, and a part of a chunk.
const Numbers kDeltaOffsets = {0, 131, 131, 132, 197, 220};
constexpr int64_t kDeltaTokens = 220;

int64_t columns_of(const ops::DeltaHeads& heads) {
  return 2 * heads.key_heads * heads.key_dim + heads.value_heads * heads.value_dim;
}

Numbers moved(Numbers numbers, double shift) {
  for (double& number : numbers) number += shift;
  return numbers;
}

// Returns a head's part of a token, normalised for a rule that corrects.
Numbers unit(const ops::DeltaHeads& heads, const Numbers& qkv, int64_t at, double scale) {
  Numbers result(qkv.begin() + at, qkv.begin() + at + heads.key_dim);
  if (heads.rule == ops::StateRule::kAdds) return result;
  double squares = 1e-6;
  for (const double x : result) squares += x * x;
  for (double& x : result) x *= scale / std::sqrt(squares);
  return result;
}

// The recurrence, token by token.
Numbers reference_delta(const std::vector<Numbers>& in, const ops::DeltaHeads& heads) {
  const Numbers &qkv = in[0], &decay = in[1], &beta = in[2], &offsets = in[3];
  const int64_t columns = columns_of(heads), keys = heads.key_dim, values = heads.value_dim;
  const bool adds = heads.rule == ops::StateRule::kAdds;
  const int64_t key_columns = heads.key_heads * keys, value_columns = heads.value_heads * values;
  Numbers y(decay.size() * static_cast<size_t>(values));
  for (int64_t head = 0; head < heads.value_heads; ++head) {
    const int64_t key_head = head / (heads.value_heads / heads.key_heads);
    const int64_t value_at = (adds ? 0 : 2 * key_columns) + head * values;
    const int64_t query_at = (adds ? value_columns + key_columns : 0) + key_head * keys;
    const int64_t key_at = (adds ? value_columns : key_columns) + key_head * keys;
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      Numbers state(static_cast<size_t>(keys * values));
      for (auto t = static_cast<int64_t>(offsets[s]); t < static_cast<int64_t>(offsets[s + 1]); ++t) {
        const int64_t row = t * columns, gate = t * heads.value_heads + head;
        const Numbers q = unit(heads, qkv, row + query_at, 1 / std::sqrt(static_cast<double>(keys)));
        const Numbers k = unit(heads, qkv, row + key_at, 1);
        for (int64_t c = 0; c < values; ++c) {
          double predicted = 0, read = 0;
          for (int64_t i = 0; i < keys; ++i)
            predicted += nth(k, i) * (nth(state, i * values + c) *= std::exp(nth(decay, gate)));
          const double correction = nth(beta, gate) * (nth(qkv, row + value_at + c) - (adds ? 0 : predicted));
          for (int64_t i = 0; i < keys; ++i) read += nth(q, i) * (nth(state, i * values + c) += nth(k, i) * correction);
          nth(y, gate * values + c) = read;
        }
      }
    }
  }
  return y;
}

OperationCase delta_case(const ops::DeltaHeads& heads, const Numbers& offsets, DType dtype) {
  const auto tokens = static_cast<int64_t>(offsets.back());
  const int64_t columns = columns_of(heads), gates = tokens * heads.value_heads;
  const ValueType gate{DType::kF32, {tokens, heads.value_heads}, kTokenAxis};
  return {.tokens = tokens,
          .inputs = {{{dtype, {tokens, columns}, kTokenAxis}, random_numbers(tokens * columns, 1)},
                     {gate, moved(random_numbers(gates, 2, 0.2), -0.2)},
                     {gate, moved(random_numbers(gates, 3, 0.5), 0.5)},
                     {{DType::kI32, {static_cast<int64_t>(offsets.size())}}, offsets, false, true}},
          .build =
              [=](Builder& b, const std::vector<ValueId>& in) {
                return ops::gated_delta_rule(b, in[0], in[1], in[2], in[3], heads);
              },
          .reference = [=](const std::vector<Numbers>& in) { return reference_delta(in, heads); }};
}

// The operands of a stream.
struct DeltaNumbers {
  Numbers qkv, decay, beta;

  DeltaNumbers() = default;
  DeltaNumbers(const ops::DeltaHeads& heads, int64_t tokens, uint64_t seed)
      : qkv(random_numbers(tokens * columns_of(heads), seed)),
        decay(moved(random_numbers(tokens * heads.value_heads, seed + 1, 0.2), -0.2)),
        beta(moved(random_numbers(tokens * heads.value_heads, seed + 2, 0.5), 0.5)) {}

  // Appends tokens [begin, end) of another stream.
  void append(const DeltaNumbers& other, const ops::DeltaHeads& heads, int64_t begin, int64_t end) {
    const auto take = [&](Numbers& to, const Numbers& from, int64_t width) {
      to.insert(to.end(), from.begin() + begin * width, from.begin() + end * width);
    };
    take(qkv, other.qkv, columns_of(heads));
    take(decay, other.decay, heads.value_heads);
    take(beta, other.beta, heads.value_heads);
  }
};

// The values of a graph with these operands.
struct DeltaGraph {
  Graph graph;
  Builder builder;
  ValueId qkv, decay, beta;

  DeltaGraph(const ops::DeltaHeads& heads, int64_t tokens) : graph{.axes = {{"tokens", tokens}}}, builder(graph) {
    qkv = builder.input("qkv", {DType::kF32, {tokens, columns_of(heads)}, kTokenAxis}, ValueKind::kBatch);
    decay = builder.input("decay", {DType::kF32, {tokens, heads.value_heads}, kTokenAxis}, ValueKind::kBatch);
    beta = builder.input("beta", {DType::kF32, {tokens, heads.value_heads}, kTokenAxis}, ValueKind::kBatch);
  }
};

Numbers of_whole_stream(const ops::DeltaHeads& heads, const DeltaNumbers& numbers, const Numbers& offsets) {
  DeltaGraph delta(heads, static_cast<int64_t>(offsets.back()));
  const ValueId at = delta.builder.input("offsets", {DType::kI32, {std::ssize(offsets)}}, ValueKind::kBatch);
  const ValueId y = ops::gated_delta_rule(delta.builder, delta.qkv, delta.decay, delta.beta, at, heads);
  return Run(delta.graph,
             {{delta.qkv, numbers.qkv}, {delta.decay, numbers.decay}, {delta.beta, numbers.beta}, {at, offsets}},
             {.threads = 2})
      .numbers(y);
}

// New tokens [begin, end) of a sequence.
struct NewDeltaTokens {
  double slot;
  int64_t begin, end;
  const DeltaNumbers* of;
};

// The states of two sequences over several runs.
class DeltaGeneration {
 public:
  explicit DeltaGeneration(const ops::DeltaHeads& heads)
      : heads_(heads), state_(static_cast<size_t>(2 * heads.value_heads * heads.key_dim * heads.value_dim), 5.0) {}

  Numbers run(const std::vector<NewDeltaTokens>& parts) {
    DeltaNumbers numbers;
    Numbers slots, positions;
    for (const NewDeltaTokens& part : parts) {
      numbers.append(*part.of, heads_, part.begin, part.end);
      for (int64_t i = part.begin; i < part.end; ++i) {
        slots.push_back(part.slot);
        positions.push_back(static_cast<double>(i));
      }
    }
    const int64_t tokens = std::ssize(slots);
    DeltaGraph delta(heads_, tokens + 3);
    Builder& b = delta.builder;
    const ValueId state = b.input("state", {DType::kF32, {2, std::ssize(state_) / 2}}, ValueKind::kCache);
    const ValueId slot = b.input("slots", {DType::kI32, {tokens + 3}, kTokenAxis}, ValueKind::kBatch);
    const ValueId position = b.input("positions", {DType::kI32, {tokens + 3}, kTokenAxis}, ValueKind::kBatch);
    const auto [y, next] =
        ops::cached_gated_delta_rule(b, delta.qkv, delta.decay, delta.beta, {state, slot, position}, heads_);
    const std::map<ValueId, Numbers> inputs{{delta.qkv, numbers.qkv},
                                            {delta.decay, numbers.decay},
                                            {delta.beta, numbers.beta},
                                            {state, state_},
                                            {slot, slots},
                                            {position, positions}};
    const Run result(delta.graph, inputs, {.rows = {tokens}});
    const bool same_bits = result == Run(delta.graph, inputs, {.threads = 3, .rows = {tokens}, .in_place = true});
    CHECK(same_bits);
    state_ = result.numbers(next);
    return result.numbers(y);
  }

 private:
  ops::DeltaHeads heads_;
  Numbers state_;
};

}  // namespace

TEST_CASE("the gated delta rule and its gradients agree with float64, over chunks and over sequences") {
  check_operation(delta_case({1, 2, 3, 5}, kDeltaOffsets, DType::kF32));
  check_operation(delta_case({2, 2, 4, 2}, {0, 1, 66, 66}, DType::kF32));
  check_operation(delta_case({1, 1, 2, 3}, {0, 70, 80}, DType::kBF16));
  check_operation(delta_case({1, 3, 17, 33}, {0, 3, 5, 5}, DType::kF32));  // more than a vector
}

TEST_CASE("Mamba-2's state space and its gradients agree with float64, over chunks and over sequences") {
  constexpr ops::StateRule kAdds = ops::StateRule::kAdds;
  check_operation(delta_case({1, 2, 3, 5, kAdds}, kDeltaOffsets, DType::kF32));
  check_operation(delta_case({2, 2, 4, 2, kAdds}, {0, 1, 66, 66}, DType::kF32));
  check_operation(delta_case({1, 1, 2, 3, kAdds}, {0, 70, 80}, DType::kBF16));
  check_operation(delta_case({1, 3, 17, 33, kAdds}, {0, 3, 5, 5}, DType::kF32));
}

TEST_CASE("a sequence gets the same bits from the gated delta rule alone and among others") {
  for (const ops::StateRule rule : {ops::StateRule::kCorrects, ops::StateRule::kAdds}) {
    const ops::DeltaHeads heads{2, 4, 20, 36, rule};
    const DeltaNumbers numbers(heads, kDeltaTokens, 7);
    const Numbers all = of_whole_stream(heads, numbers, kDeltaOffsets);
    const int64_t width = heads.value_heads * heads.value_dim;
    for (size_t s = 0; s + 1 < kDeltaOffsets.size(); ++s) {
      const auto begin = static_cast<int64_t>(kDeltaOffsets[s]), end = static_cast<int64_t>(kDeltaOffsets[s + 1]);
      if (begin == end) continue;
      DeltaNumbers own;
      own.append(numbers, heads, begin, end);
      const Numbers expected(all.begin() + begin * width, all.begin() + end * width);
      CHECK(of_whole_stream(heads, own, {0, static_cast<double>(end - begin)}) == expected);
    }
  }
}

TEST_CASE("generation's delta rule gives what the whole sequence gives, and its bits depend on no cut") {
  ops::DeltaHeads heads{2, 4, 20, 36};
  SUBCASE("correcting") {}
  SUBCASE("adding") { heads.rule = ops::StateRule::kAdds; }
  const DeltaNumbers a(heads, 80, 7), b(heads, 6, 11);
  const int64_t width = heads.value_heads * heads.value_dim;
  DeltaGeneration alone(heads), together(heads);
  const Numbers of_a = alone.run({{0, 0, 80, &a}}), of_b = alone.run({{1, 0, 6, &b}});
  check_close(of_a, of_whole_stream(heads, a, {0, 80}), DType::kF32, 1e-5);
  const auto part = [&](const Numbers& all, int64_t begin, int64_t end) {
    return Numbers(all.begin() + begin * width, all.begin() + end * width);
  };
  const Numbers first = together.run({{0, 0, 2, &b}, {1, 0, 50, &a}}),
                second = together.run({{1, 50, 51, &a}, {0, 2, 6, &b}});
  CHECK(part(first, 2, 52) == part(of_a, 0, 50));
  CHECK(part(second, 0, 1) == part(of_a, 50, 51));
  CHECK(part(first, 0, 2) == part(of_b, 0, 2));
  CHECK(part(second, 1, 5) == part(of_b, 2, 6));
  CHECK(together.run({{1, 51, 80, &a}}) == part(of_a, 51, 80));
}

TEST_CASE("a state that is forgotten at once, and gates at their ends, stay finite") {
  const ops::DeltaHeads heads{1, 1, 4, 4};
  DeltaNumbers numbers(heads, 70, 3);
  std::fill(numbers.decay.begin(), numbers.decay.end(), -90.0);
  for (size_t t = 0; t < numbers.beta.size(); ++t) numbers.beta[t] = static_cast<double>(t % 2);
  std::fill(numbers.qkv.begin(), numbers.qkv.begin() + 24, 0.0);  // two tokens of zeros
  const Numbers y = of_whole_stream(heads, numbers, {0, 70});
  check_close(y, reference_delta({numbers.qkv, numbers.decay, numbers.beta, {0, 70}}, heads), DType::kF32, 1e-5);
}

TEST_CASE("the gated delta rule refuses heads and operands that do not fit") {
  DeltaGraph delta({1, 2, 3, 5}, 4);
  Builder& b = delta.builder;
  const ValueId offsets = b.input("offsets", {DType::kI32, {3}}, ValueKind::kBatch);
  const auto append = [&](const ops::DeltaHeads& heads) {
    (void)ops::gated_delta_rule(b, delta.qkv, delta.decay, delta.beta, offsets, heads);
  };
  CHECK_NOTHROW(append({1, 2, 3, 5}));
  CHECK_THROWS_AS(append({3, 2, 3, 5}), InputError);
  CHECK_THROWS_AS(append({1, 2, 3, 4}), InputError);
  CHECK_THROWS_WITH(append({1, 2, 257, 5}),
                    "[gated_delta_rule] expected keys of a size from 1 to 256, got 257; check the model's sizes");
}
