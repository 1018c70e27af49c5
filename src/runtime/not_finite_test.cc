#include "runtime/not_finite.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "backend/testing/delayed_device.h"
#include "ops/add/add.h"
#include "ops/scale/scale.h"
#include "plan/planner.h"
#include "plan/verify.h"
#include "runtime/executor.h"

using namespace spillway;

namespace {

// Two layers, each of which adds a column of the batch and multiplies by 2.
struct TwoLayers {
  Graph graph{.name = "two layers"};
  ValueId first, second;
  Program program;

  TwoLayers() {
    Builder b(graph, forward_section());
    b.add_axis({.name = "tokens", .capacity = 8});
    const ValueType type{DType::kBF16, {8, 3}, kTokenAxis};
    first = b.input("first", type, ValueKind::kBatch);
    second = b.input("second", type, ValueKind::kBatch);
    b.begin_block("layer 0");
    const ValueId inner = ops::scale(b, ops::add(b, first, first), 2);
    b.end_block();
    b.begin_block("layer 1");
    b.result(ops::scale(b, ops::add(b, inner, second), 2));
    b.end_block();
    program = plan_for(graph, Machine{}, uniform_choices(graph, ActivationPolicy::kKeep)).program;
    for (const std::string& violation : verify(graph, program)) FAIL_CHECK(violation);
  }

  // Returns what is found if element 4 of the columns are these, of two rows or of one.
  [[nodiscard]] std::string found(float in_first, float in_second, int64_t rows = 2, Device* device = nullptr) const {
    ThreadPool pool(1);
    NotFinite found;
    Executor executor(graph, program, pool, {.tiers = {.device = device}, .lanes = look_for_not_finite(found)});
    for (const auto& [column, number] : {std::pair(first, in_first), {second, in_second}}) {
      auto* const numbers = executor.home(column).as<bf16>();
      std::fill_n(numbers, 24, to_bf16(1));
      numbers[4] = to_bf16(number);
    }
    executor.set_rows(kTokenAxis, rows);
    executor.run(0);
    return found.text(graph);
  }
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("the first operation that writes NaN or infinity is named with its layer") {
  const TwoLayers layers;
  CHECK(layers.found(1, 1) == "");
  CHECK(layers.found(kNan, 1) == "NaN from add in layer 0");
  CHECK(layers.found(1, kNan) == "NaN from add in layer 1");
  CHECK(layers.found(-kInfinity, 1) == "infinity from add in layer 0");
  CHECK(layers.found(3e38f, 1) == "infinity from add in layer 0");
  CHECK(layers.found(1e38f, 1) == "infinity from scale in layer 0");
  CHECK(layers.found(kInfinity, -kInfinity) == "infinity from add in layer 0");
}

TEST_CASE("rows that a batch does not have are not looked at") {
  CHECK(TwoLayers().found(kNan, kNan, 1) == "");
  CHECK(TwoLayers().found(kNan, kNan, 0) == "");
}

TEST_CASE("a device that works on its own time, in memory of its own, is waited for and read") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    testing::DelayedDevice device(seed, 200);
    CHECK(TwoLayers().found(1, kNan, 2, &device) == "NaN from add in layer 1");
    CHECK(TwoLayers().found(1, 1, 1, &device) == "");
  }
}
