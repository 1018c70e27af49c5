#include "ops/causal_conv/causal_conv.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

// Six sequences, one of them empty and two shorter than the taps, with room for two more; they cross blocks of rows.
const Numbers kConvOffsets = {0, 1, 3, 21, 21, 40, 47, 47, 47};
constexpr int64_t kConvTokens = 47;

Numbers reference_conv(const std::vector<Numbers>& in, int64_t channels, int64_t taps, bool has_bias) {
  const Numbers &x = in[0], &weight = in[1], &offsets = in[has_bias ? 3 : 2];
  Numbers y(x.size());
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    const auto begin = static_cast<int64_t>(offsets[s]), end = static_cast<int64_t>(offsets[s + 1]);
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t c = 0; c < channels; ++c) {
        double sum = has_bias ? nth(in[2], c) : 0;
        for (int64_t j = 0; j < taps && t - j >= begin; ++j)
          sum += nth(weight, c * taps + taps - 1 - j) * nth(x, (t - j) * channels + c);
        nth(y, t * channels + c) = sum;
      }
    }
  }
  return y;
}

OperationCase conv_case(int64_t channels, int64_t taps, bool has_bias, DType dtype, DType weight) {
  OperationCase test{
      .tokens = kConvTokens,
      .inputs = {{{dtype, {kConvTokens, channels}, kTokenAxis}, random_numbers(kConvTokens * channels, 1)},
                 {{weight, {channels, taps}}, random_numbers(channels * taps, 2)}}};
  if (has_bias) test.inputs.push_back({{weight, {channels}}, random_numbers(channels, 3)});
  test.inputs.push_back({{DType::kI32, {static_cast<int64_t>(kConvOffsets.size())}}, kConvOffsets, false, true});
  test.build = [=](Builder& b, const std::vector<ValueId>& in) {
    return ops::causal_conv(b, in[0], in[1], has_bias ? in[2] : kNone, in.back());
  };
  test.reference = [=](const std::vector<Numbers>& in) { return reference_conv(in, channels, taps, has_bias); };
  return test;
}

// A convolution of whole sequences, and the same of new tokens with a state.
struct Convolution {
  int64_t channels, taps;
  DType dtype;
  Numbers weight, bias;

  Convolution(int64_t channels_, int64_t taps_, DType dtype_)
      : channels(channels_),
        taps(taps_),
        dtype(dtype_),
        weight(rounded(random_numbers(channels * taps, 2), dtype)),
        bias(rounded(random_numbers(channels, 3), dtype)) {}

  [[nodiscard]] ValueId input(Builder& b, const char* name, DType type, const Shape& shape, bool per_token) const {
    return b.input(name, {type, shape, per_token ? kTokenAxis : kNoAxis},
                   per_token ? ValueKind::kBatch : ValueKind::kFrozenWeight);
  }

  [[nodiscard]] Numbers of_stream(const Numbers& x, const Numbers& offsets) const {
    const int64_t tokens = std::ssize(x) / channels;
    Graph graph{.axes = {{"tokens", tokens}}};
    Builder b(graph);
    const ValueId in = input(b, "x", dtype, {tokens, channels}, true);
    const ValueId w = input(b, "w", dtype, {channels, taps}, false), shift = input(b, "b", dtype, {channels}, false);
    const ValueId at = b.input("offsets", {DType::kI32, {std::ssize(offsets)}}, ValueKind::kBatch);
    const ValueId y = ops::causal_conv(b, in, w, shift, at);
    return Run(graph, {{in, x}, {w, weight}, {shift, bias}, {at, offsets}}, {.threads = 2}).numbers(y);
  }
};

// Tokens of a sequence in a run of generation.
struct NewTokens {
  double slot;
  int64_t first, count;
  const Numbers* of;  // the whole sequence
};

// The state of three sequences over several runs.
class CachedConvolution {
 public:
  explicit CachedConvolution(const Convolution& convolution)
      : conv_(convolution), state_(static_cast<size_t>(3 * (conv_.taps - 1) * conv_.channels), 7.0) {}

  // Returns the results of all tokens of a run, whose program has room for two more.
  Numbers run(const std::vector<NewTokens>& parts) {
    Numbers x, slots, positions;
    for (const NewTokens& part : parts) {
      const auto begin = part.of->begin() + part.first * conv_.channels;
      x.insert(x.end(), begin, begin + part.count * conv_.channels);
      for (int64_t i = 0; i < part.count; ++i) {
        slots.push_back(part.slot);
        positions.push_back(static_cast<double>(part.first + i));
      }
    }
    const int64_t tokens = std::ssize(slots), channels = conv_.channels;
    Graph graph{.axes = {{"tokens", tokens + 2}}};
    Builder b(graph);
    const ValueId in = conv_.input(b, "x", conv_.dtype, {tokens + 2, channels}, true);
    const ValueId w = conv_.input(b, "w", conv_.dtype, {channels, conv_.taps}, false);
    const ValueId shift = conv_.input(b, "b", conv_.dtype, {channels}, false);
    const ValueId state = b.input("state", {conv_.dtype, {3, (conv_.taps - 1) * channels}}, ValueKind::kCache);
    const ValueId slot = conv_.input(b, "slots", DType::kI32, {tokens + 2}, true);
    const ValueId position = conv_.input(b, "positions", DType::kI32, {tokens + 2}, true);
    const auto [y, next] = ops::cached_causal_conv(b, in, w, shift, {state, slot, position});
    const std::map<ValueId, Numbers> numbers{{in, x},         {w, conv_.weight}, {shift, conv_.bias},
                                             {state, state_}, {slot, slots},     {position, positions}};
    const Run result(graph, numbers, {.rows = {tokens}});
    const bool same_bits = result == Run(graph, numbers, {.threads = 3, .rows = {tokens}, .in_place = true});
    CHECK(same_bits);
    state_ = result.numbers(next);
    return result.numbers(y);
  }

 private:
  const Convolution& conv_;
  Numbers state_;
};

void append(Numbers& to, const Numbers& from, int64_t begin, int64_t end) {
  to.insert(to.end(), from.begin() + begin, from.begin() + end);
}

}  // namespace

TEST_CASE("causal_conv and its gradients agree with float64, and take nothing from the sequence before") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check_operation(conv_case(7, 3, false, dtype, DType::kF32));
    check_operation(conv_case(37, 4, true, dtype, dtype));
    check_operation(conv_case(5, 2, true, dtype, DType::kBF16));
  }
  check_operation(conv_case(3, 8, false, DType::kF32, DType::kF32));
  check_operation(conv_case(1030, 3, true, DType::kF32, DType::kF32));  // several blocks of threads on a GPU
}

TEST_CASE("a sequence is convolved to the same bits alone and among others") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Convolution conv(35, 4, dtype);
    const Numbers x = rounded(random_numbers(kConvTokens * conv.channels, 5), dtype);
    const Numbers all = conv.of_stream(x, kConvOffsets);
    for (size_t s = 0; s + 1 < kConvOffsets.size(); ++s) {
      const auto begin = static_cast<int64_t>(kConvOffsets[s]) * conv.channels;
      const auto end = static_cast<int64_t>(kConvOffsets[s + 1]) * conv.channels;
      if (begin == end) continue;
      Numbers own, expected;
      append(own, x, begin, end);
      append(expected, all, begin, end);
      CHECK(conv.of_stream(own, {0, static_cast<double>((end - begin) / conv.channels)}) == expected);
    }
  }
}

TEST_CASE("sequences that are convolved in pieces, side by side, get the bits that they get as a whole") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t taps : {2, 3, 4}) {
      const Convolution conv(21, taps, dtype);
      const auto sequence = [&](int64_t tokens, uint64_t seed) {
        return rounded(random_numbers(tokens * conv.channels, seed), dtype);
      };
      const Numbers a = sequence(14, 5), b = sequence(9, 6), c = sequence(3, 7);
      CachedConvolution cached(conv);
      Numbers of_a, of_b, of_c;
      const auto take = [&](Numbers& to, const Numbers& from, int64_t first, int64_t count) {
        append(to, from, first * conv.channels, (first + count) * conv.channels);
      };
      Numbers all = cached.run({{1, 0, 5, &a}, {0, 0, 1, &b}});
      take(of_a, all, 0, 5);
      take(of_b, all, 5, 1);
      all = cached.run({{0, 1, 1, &b}, {1, 5, 1, &a}});
      take(of_b, all, 0, 1);
      take(of_a, all, 1, 1);
      all = cached.run({{1, 6, 2, &a}, {2, 0, 3, &c}, {0, 2, 7, &b}});
      take(of_a, all, 0, 2);
      take(of_c, all, 2, 3);
      take(of_b, all, 5, 7);
      take(of_a, cached.run({{1, 8, 6, &a}}), 0, 6);
      CHECK(of_a == conv.of_stream(a, {0, 14}));
      CHECK(of_b == conv.of_stream(b, {0, 9}));
      CHECK(of_c == conv.of_stream(c, {0, 3}));
      CHECK(cached.run({{2, 0, 4, &b}}) == conv.of_stream({b.begin(), b.begin() + 4 * conv.channels}, {0, 4}));
    }
  }
}

TEST_CASE("causal_conv refuses other shapes and too many taps") {
  Graph graph{.axes = {{"tokens", 4}}};
  Builder b(graph);
  const auto input = [&](const char* name, DType dtype, const Shape& shape) {
    return b.input(name, {dtype, shape}, ValueKind::kBatch);
  };
  const ValueId x = b.input("x", {DType::kF32, {4, 6}, kTokenAxis}, ValueKind::kBatch);
  const ValueId offsets = input("offsets", DType::kI32, {3});
  CHECK_THROWS_WITH((void)ops::causal_conv(b, x, input("wide", DType::kF32, {6, 9}), kNone, offsets),
                    "[causal_conv] expected from 2 to 8 taps, got 9; check the model's sizes");
  CHECK_THROWS_AS((void)ops::causal_conv(b, x, input("narrow", DType::kF32, {5, 3}), kNone, offsets), InputError);
  const ValueId weight = input("w", DType::kF32, {6, 3});
  CHECK_THROWS_AS((void)ops::causal_conv(b, x, weight, input("bias", DType::kBF16, {6}), offsets), InputError);
  CHECK_THROWS_AS((void)ops::causal_conv(b, x, weight, kNone, weight), InputError);
}
