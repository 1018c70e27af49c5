// Fake quantisation beside torchao's (tests/golden/qat/formats.json, tools/make_qat_goldens.py).
#include "ops/fake_quantise/fake_quantise.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "graph/autodiff.h"
#include "ops/add/add.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

const nlohmann::json& goldens() {
  static const nlohmann::json kGoldens =
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/qat/formats.json"));
  return kGoldens;
}

struct NamedFormat {
  const char* name;
  FakeFormat format;
};
constexpr NamedFormat kFormats[] = {{"int4", FakeFormat::kInt4},   {"int4_of_float8", FakeFormat::kInt4OfFloat8},
                                    {"int8", FakeFormat::kInt8},   {"float8", FakeFormat::kFloat8},
                                    {"mxfp4", FakeFormat::kMxfp4}, {"nvfp4", FakeFormat::kNvfp4}};

// A graph of a weight that is rounded as torchao rounds it for a format, and its gradient.
struct Rounding {
  Graph graph;
  ValueId x = kNone, dy = kNone, enabled = kNone, out = kNone, dx = kNone;

  Rounding(FakeFormat format, const Shape& shape, int64_t group, DType dtype = DType::kF32, bool may_be_off = false) {
    Builder b(graph);
    x = b.input("x", {dtype, shape}, ValueKind::kTrainableWeight);
    dy = b.input("dy", {dtype, shape}, ValueKind::kBatch);
    if (may_be_off) enabled = b.input("enabled", {DType::kI64, {1}}, ValueKind::kBatch);
    out = x;
    if (format == FakeFormat::kInt4OfFloat8)
      out = ops::fake_quantise(b, out, {.format = FakeFormat::kFloat8, .enabled = enabled});
    out = ops::fake_quantise(b, out, {.format = format, .group = group, .enabled = enabled});
    const ValueId loss = weighted_sum(b, out, dy);
    WeightGradient gradient{.weight = x, .dtype = dtype};
    append_backward(b, loss, std::span(&gradient, 1), ops::add);
    dx = gradient.gradient;
    for (const ValueId id : {out, dx}) b.result(id);
  }
};

std::map<ValueId, Numbers> rounding_inputs(const Rounding& rounding) {
  return {{rounding.x, goldens()["x"].get<Numbers>()}, {rounding.dy, goldens()["dy"].get<Numbers>()}};
}

Shape golden_shape() { return {goldens()["shape"][0].get<int64_t>(), goldens()["shape"][1].get<int64_t>()}; }

}  // namespace

TEST_CASE("numbers are rounded to each format as torchao rounds them, and their gradients are torchao's") {
  for (const auto& [name, format] : kFormats) {
    CAPTURE(name);
    const Rounding rounding(format, golden_shape(), goldens()["group"].get<int64_t>());
    const nlohmann::json& expected = goldens()["formats"][name];
    for_each_instruction_set([&] {
      for (const int threads : {1, 3}) {
        const Run run(rounding.graph, rounding_inputs(rounding), {.threads = threads});
        check_close(run.numbers(rounding.out), expected["out"].get<Numbers>(), DType::kF32, 1e-6);
        check_close(run.numbers(rounding.dx), expected["dx"].get<Numbers>(), DType::kF32, 1e-5);
      }
    });
  }
}

TEST_CASE("where fake quantisation is off, numbers and gradients are as they were") {
  for (const auto& [name, format] : kFormats) {
    CAPTURE(name);
    const Rounding rounding(format, golden_shape(), goldens()["group"].get<int64_t>(), DType::kF32, true);
    std::map<ValueId, Numbers> inputs = rounding_inputs(rounding);
    inputs[rounding.enabled] = {0};
    const Run off(rounding.graph, inputs);
    CHECK(off.numbers(rounding.out) == rounded(inputs[rounding.x], DType::kF32));
    CHECK(off.numbers(rounding.dx) == rounded(inputs[rounding.dy], DType::kF32));
    inputs[rounding.enabled] = {1};
    const Run on(rounding.graph, inputs);
    check_close(on.numbers(rounding.out), goldens()["formats"][name]["out"].get<Numbers>(), DType::kF32, 1e-6);
  }
}

TEST_CASE("bf16 is rounded as f32 of the same numbers, rows may end within a vector, and threads change no bit") {
  for (const auto& [name, format] : kFormats) {
    CAPTURE(name);
    const bool has_rows = format == FakeFormat::kInt8 || format == FakeFormat::kFloat8;
    const Shape shape = {7, has_rows ? int64_t{1131} : int64_t{96}};
    const Numbers x = rounded(random_numbers(shape.elems(), 1, 3), DType::kBF16);
    const Numbers dy = rounded(random_numbers(shape.elems(), 2), DType::kBF16);
    const Rounding narrow(format, shape, 32, DType::kBF16), wide(format, shape, 32);
    const Run of_narrow(narrow.graph, {{narrow.x, x}, {narrow.dy, dy}});
    const Run of_wide(wide.graph, {{wide.x, x}, {wide.dy, dy}});
    CHECK(of_narrow == Run(narrow.graph, {{narrow.x, x}, {narrow.dy, dy}}, {.threads = 4}));
    if (format == FakeFormat::kInt4OfFloat8) continue;  // the second of two roundings takes what is rounded to bf16
    check_close(of_narrow.numbers(narrow.out), of_wide.numbers(wide.out), DType::kBF16, 1e-6);
    check_close(of_narrow.numbers(narrow.dx), of_wide.numbers(wide.dx), DType::kBF16, 1e-4);
  }
}

TEST_CASE("fake quantisation refuses columns that are no whole groups") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {2, 48}}, ValueKind::kBatch);
  CHECK_THROWS_AS((void)ops::fake_quantise(b, x, {.format = FakeFormat::kInt4, .group = 32}), InputError);
  CHECK_THROWS_AS((void)ops::fake_quantise(b, x, {.format = FakeFormat::kInt4, .group = 24}), InputError);
  CHECK_THROWS_AS((void)ops::fake_quantise(b, x, {.format = FakeFormat::kMxfp4}), InputError);
}
