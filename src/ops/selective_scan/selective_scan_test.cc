#include "ops/selective_scan/selective_scan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "base/index.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

// Five sequences: of two chunks and a part, an empty one, one token, a chunk and a token, and a part of a chunk.
const Numbers kScanOffsets = {0, 131, 131, 132, 197, 220};
constexpr int64_t kScanTokens = 220;

// The recurrence, token by token.
Numbers reference_scan(const std::vector<Numbers>& in, int64_t channels, int64_t state) {
  const Numbers &x = in[0], &steps = in[1], &rates = in[2], &b = in[3], &c = in[4], &offsets = in[5];
  Numbers y(x.size());
  for (int64_t d = 0; d < channels; ++d) {
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      Numbers own(static_cast<size_t>(state));
      for (auto t = static_cast<int64_t>(offsets[s]); t < static_cast<int64_t>(offsets[s + 1]); ++t) {
        const int64_t at = t * channels + d;
        const double step = std::log1p(std::exp(nth(steps, at)));
        for (int64_t i = 0; i < state; ++i) {
          double& number = nth(own, i);
          number = std::exp(-step * nth(rates, d * state + i)) * number + step * nth(x, at) * nth(b, t * state + i);
          nth(y, at) += number * nth(c, t * state + i);
        }
      }
    }
  }
  return y;
}

Numbers above_zero(Numbers numbers) {
  for (double& number : numbers) number = std::abs(number) + 0.05;
  return numbers;
}

OperationCase scan_case(int64_t channels, int64_t state, const Numbers& offsets, DType dtype) {
  const auto tokens = static_cast<int64_t>(offsets.back());
  const auto per_token = [&](int64_t width, uint64_t seed) {
    return OperandCase{{dtype, {tokens, width}, kTokenAxis}, random_numbers(tokens * width, seed)};
  };
  return {.tokens = tokens,
          .inputs = {per_token(channels, 1),
                     per_token(channels, 2),
                     {{DType::kF32, {channels, state}}, above_zero(random_numbers(channels * state, 3))},
                     per_token(state, 4),
                     per_token(state, 5),
                     {{DType::kI32, {static_cast<int64_t>(offsets.size())}}, offsets, false, true}},
          .build =
              [=](Builder& builder, const std::vector<ValueId>& in) {
                return ops::selective_scan(builder, {in[0], in[1], in[2], in[3], in[4]}, in[5]);
              },
          .reference = [=](const std::vector<Numbers>& in) { return reference_scan(in, channels, state); }};
}

// The operands of a stream.
struct ScanStreamNumbers {
  int64_t channels, state;
  Numbers x, steps, rates, b, c;

  ScanStreamNumbers(int64_t channels_, int64_t state_, int64_t tokens, uint64_t seed)
      : channels(channels_),
        state(state_),
        x(random_numbers(tokens * channels, seed)),
        steps(random_numbers(tokens * channels, seed + 1)),
        rates(above_zero(random_numbers(channels * state, 99))),
        b(random_numbers(tokens * state, seed + 2)),
        c(random_numbers(tokens * state, seed + 3)) {}

  // Appends tokens [begin, end) of another stream.
  void append(const ScanStreamNumbers& other, int64_t begin, int64_t end) {
    const auto take = [&](Numbers& to, const Numbers& from, int64_t width) {
      to.insert(to.end(), from.begin() + begin * width, from.begin() + end * width);
    };
    take(x, other.x, channels);
    take(steps, other.steps, channels);
    take(b, other.b, state);
    take(c, other.c, state);
  }
};

// The values of a graph with these operands.
struct ScanGraph {
  Graph graph;
  Builder builder;
  ops::ScanOperands operands;

  ScanGraph(int64_t channels, int64_t state, int64_t tokens) : graph{.axes = {{"tokens", tokens}}}, builder(graph) {
    const auto input = [&](const char* name, int64_t width) {
      return builder.input(name, {DType::kF32, {tokens, width}, kTokenAxis}, ValueKind::kBatch);
    };
    operands = {.x = input("x", channels),
                .steps = input("steps", channels),
                .rates = builder.input("rates", {DType::kF32, {channels, state}}, ValueKind::kBatch),
                .b = input("b", state),
                .c = input("c", state)};
  }
  [[nodiscard]] std::map<ValueId, Numbers> inputs(const ScanStreamNumbers& numbers) const {
    return {{operands.x, numbers.x},
            {operands.steps, numbers.steps},
            {operands.rates, numbers.rates},
            {operands.b, numbers.b},
            {operands.c, numbers.c}};
  }
};

Numbers scan_of_whole_stream(const ScanStreamNumbers& numbers, const Numbers& offsets) {
  ScanGraph scan(numbers.channels, numbers.state, static_cast<int64_t>(offsets.back()));
  const ValueId at = scan.builder.input("offsets", {DType::kI32, {std::ssize(offsets)}}, ValueKind::kBatch);
  const ValueId y = ops::selective_scan(scan.builder, scan.operands, at);
  std::map<ValueId, Numbers> inputs = scan.inputs(numbers);
  inputs[at] = offsets;
  return Run(scan.graph, inputs, {.threads = 2}).numbers(y);
}

// New tokens [begin, end) of a sequence.
struct NewScanTokens {
  double slot;
  int64_t begin, end;
  const ScanStreamNumbers* of;
};

// The states of two sequences over several runs.
class ScanGeneration {
 public:
  ScanGeneration(int64_t channels, int64_t state)
      : channels_(channels), size_(state), state_(static_cast<size_t>(2 * channels * state), 5.0) {}

  Numbers run(const std::vector<NewScanTokens>& parts) {
    ScanStreamNumbers numbers(channels_, size_, 0, 0);
    Numbers slots, positions;
    for (const NewScanTokens& part : parts) {
      numbers.append(*part.of, part.begin, part.end);
      for (int64_t i = part.begin; i < part.end; ++i) {
        slots.push_back(part.slot);
        positions.push_back(static_cast<double>(i));
      }
    }
    const int64_t tokens = std::ssize(slots);
    ScanGraph scan(channels_, size_, tokens + 3);
    Builder& b = scan.builder;
    const ValueId state = b.input("state", {DType::kF32, {2, channels_ * size_}}, ValueKind::kCache);
    const ValueId slot = b.input("slots", {DType::kI32, {tokens + 3}, kTokenAxis}, ValueKind::kBatch);
    const ValueId position = b.input("positions", {DType::kI32, {tokens + 3}, kTokenAxis}, ValueKind::kBatch);
    const auto [y, next] = ops::cached_selective_scan(b, scan.operands, {state, slot, position});
    std::map<ValueId, Numbers> inputs = scan.inputs(numbers);
    inputs[state] = state_;
    inputs[slot] = slots;
    inputs[position] = positions;
    const Run result(scan.graph, inputs, {.rows = {tokens}});
    const bool same_bits = result == Run(scan.graph, inputs, {.threads = 3, .rows = {tokens}, .in_place = true});
    CHECK(same_bits);
    state_ = result.numbers(next);
    return result.numbers(y);
  }

 private:
  int64_t channels_, size_;
  Numbers state_;
};

Numbers part_of(const Numbers& all, int64_t width, int64_t begin, int64_t end) {
  return {all.begin() + begin * width, all.begin() + end * width};
}

}  // namespace

TEST_CASE("the selective scan and its gradients agree with float64, over chunks and over sequences") {
  check_operation(scan_case(3, 4, kScanOffsets, DType::kF32));
  check_operation(scan_case(5, 1, {0, 1, 66, 66}, DType::kF32));
  check_operation(scan_case(2, 3, {0, 70, 80}, DType::kBF16));
  check_operation(scan_case(33, 5, {0, 3, 5, 5}, DType::kF32));  // more than a vector
  check_operation(scan_case(150, 2, {0, 2, 3}, DType::kF32));    // several blocks of channels
}

TEST_CASE("a sequence gets the same bits from the selective scan alone and among others") {
  const ScanStreamNumbers numbers(36, 4, kScanTokens, 7);
  const Numbers all = scan_of_whole_stream(numbers, kScanOffsets);
  for (size_t s = 0; s + 1 < kScanOffsets.size(); ++s) {
    const auto begin = static_cast<int64_t>(kScanOffsets[s]), end = static_cast<int64_t>(kScanOffsets[s + 1]);
    if (begin == end) continue;
    ScanStreamNumbers own(36, 4, 0, 0);
    own.append(numbers, begin, end);
    CHECK(scan_of_whole_stream(own, {0, static_cast<double>(end - begin)}) == part_of(all, 36, begin, end));
  }
}

TEST_CASE("generation's scan has the bits of the whole sequence, wherever that is cut") {
  constexpr int64_t kWidth = 70;
  const ScanStreamNumbers a(kWidth, 3, 80, 7), b(kWidth, 3, 6, 11);
  ScanGeneration alone(kWidth, 3), together(kWidth, 3);
  const Numbers of_a = alone.run({{0, 0, 80, &a}}), of_b = alone.run({{1, 0, 6, &b}});
  CHECK(of_a == scan_of_whole_stream(a, {0, 80}));
  const Numbers first = together.run({{0, 0, 2, &b}, {1, 0, 50, &a}}),
                second = together.run({{1, 50, 51, &a}, {0, 2, 6, &b}});
  CHECK(part_of(first, kWidth, 2, 52) == part_of(of_a, kWidth, 0, 50));
  CHECK(part_of(second, kWidth, 0, 1) == part_of(of_a, kWidth, 50, 51));
  CHECK(part_of(first, kWidth, 0, 2) == part_of(of_b, kWidth, 0, 2));
  CHECK(part_of(second, kWidth, 1, 5) == part_of(of_b, kWidth, 2, 6));
  CHECK(together.run({{1, 51, 80, &a}}) == part_of(of_a, kWidth, 51, 80));
}

TEST_CASE("steps and rates at their ends stay finite in the selective scan") {
  ScanStreamNumbers numbers(4, 2, 70, 3);
  for (size_t i = 0; i < numbers.steps.size(); ++i) numbers.steps[i] = i % 3 == 0 ? -90 : i % 3 == 1 ? 90 : 0;
  numbers.rates[0] = 1e6;
  numbers.rates[1] = 0;
  const Numbers y = scan_of_whole_stream(numbers, {0, 70});
  check_close(y, reference_scan({numbers.x, numbers.steps, numbers.rates, numbers.b, numbers.c, {0, 70}}, 4, 2),
              DType::kF32, 1e-5);
}

TEST_CASE("the selective scan refuses operands that do not fit") {
  ScanGraph scan(5, 3, 4);
  Builder& b = scan.builder;
  const ValueId offsets = b.input("offsets", {DType::kI32, {3}}, ValueKind::kBatch);
  CHECK_NOTHROW((void)ops::selective_scan(b, scan.operands, offsets));
  ops::ScanOperands wrong = scan.operands;
  wrong.b = scan.operands.x;
  CHECK_THROWS_WITH((void)ops::selective_scan(b, wrong, offsets), doctest::Contains("[selective_scan] expected b"));
  wrong = scan.operands;
  wrong.rates = b.input("wide", {DType::kF32, {5, 257}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::selective_scan(b, wrong, offsets),
                    "[selective_scan] expected states of 1 to 256 numbers, got 257; check the model's sizes");
}
