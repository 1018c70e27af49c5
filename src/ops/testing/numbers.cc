// Numbers of tests, whatever their dtype.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "graph/autodiff.h"
#include "ops/testing/harness.h"

namespace spillway::ops::testing {

void write_number(double number, DType dtype, std::byte* to) {
  const auto put = [&](auto value) { std::memcpy(to, &value, sizeof(value)); };
  switch (dtype) {
    case DType::kF32:
      return put(static_cast<float>(number));
    case DType::kBF16:
      return put(to_bf16(static_cast<float>(number)));
    case DType::kI32:
      return put(static_cast<int32_t>(number));
    case DType::kI64:
      return put(static_cast<int64_t>(number));
    case DType::kI8:
      return put(static_cast<int8_t>(number));
    case DType::kU8:
      return put(static_cast<uint8_t>(number));
    default:
      FAIL("no numbers of " << name_of(dtype));
  }
}

double read_number(DType dtype, const std::byte* from) {
  const auto get = [&](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  switch (dtype) {
    case DType::kF32:
      return get(float{});
    case DType::kBF16:
      return to_float(get(bf16{}));
    case DType::kI32:
      return get(int32_t{});
    case DType::kI64:
      return static_cast<double>(get(int64_t{}));
    case DType::kI8:
      return static_cast<double>(get(int8_t{}));
    case DType::kU8:
      return static_cast<double>(get(uint8_t{}));
    default:
      FAIL("no numbers of " << name_of(dtype));
      return 0;
  }
}

Numbers random_numbers(int64_t count, uint64_t seed, double scale) {
  RandomStream stream(seed, 1);
  Numbers numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(scale * (2.0 * stream.uniform() - 1));
  return numbers;
}

Numbers random_integers(int64_t count, uint64_t seed, int64_t bound) {
  RandomStream stream(seed, 2);
  Numbers numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(stream.below(static_cast<uint32_t>(bound)));
  return numbers;
}

Numbers rounded(Numbers numbers, DType dtype) {
  std::byte bytes[8];
  for (double& number : numbers) {
    write_number(number, dtype, bytes);
    number = read_number(dtype, bytes);
  }
  return numbers;
}

void check_close(const Numbers& got, const Numbers& want, DType dtype, double tolerance) {
  REQUIRE(got.size() == want.size());
  double largest = 1e-2;  // below it the tolerance is absolute: sums that cancel to nothing
  for (const double w : want) largest = std::max(largest, std::abs(w));
  const double half_unit = dtype == DType::kBF16 ? 0x1p-8 : 0;
  const auto close = [&](size_t i) {
    return std::abs(got[i] - want[i]) <= tolerance * largest + half_unit * std::abs(want[i]);
  };
  size_t i = 0;
  while (i < got.size() && close(i)) ++i;
  if (i < got.size()) FAIL_CHECK("element " << i << " is " << got[i] << " instead of " << want[i]);
}

namespace {

void weighted_sum_cpu(const KernelArgs& args) {
  double sum = 0;
  const TensorView &y = args.inputs[0], &c = args.inputs[1];
  for (int64_t i = 0; i < y.elems(); ++i) {
    const int64_t at = i * size_of(y.dtype);
    sum += read_number(y.dtype, y.as<std::byte>() + at) * read_number(c.dtype, c.as<std::byte>() + at);
  }
  *args.outputs[0].as<float>() = static_cast<float>(sum);
}

const OpDef kWeightedSum{.name = "weighted_sum",
                         .infer =
                             [](TypeList, const Attributes&) {
                               return std::vector<ValueType>{{DType::kF32, {1}}};
                             },
                         .vjp = [](VjpContext& context) { context.add(0, context.input(1)); },
                         .cost = [](TypeList, TypeList, const Attributes&) { return Cost{.bytes = 1}; },
                         .cpu = weighted_sum_cpu};

}  // namespace

ValueId weighted_sum(Builder& builder, ValueId y, ValueId coefficients) {
  return builder.append_one(kWeightedSum, {y, coefficients});
}

}  // namespace spillway::ops::testing
