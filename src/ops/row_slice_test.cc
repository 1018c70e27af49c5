// Optimizers over slices of a weight.
#include "ops/row_slice.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "graph/verify.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/optimizers/optimizer.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kRows = 37, kColumns = 1001;  // rows whose slices begin at any alignment

// The tensors of a weight of kRows x kColumns, split into rows as told. Names: "w", "g", and "m.0", "m.1", ... of
// states.
struct SlicedParameter {
  Graph graph;
  Builder b{graph};
  std::map<ValueId, Numbers> inputs;
  std::vector<RowSlice> slices;
  std::map<std::string, std::vector<ValueId>> states;  // a slice each
  ValueId weight = kNone, gradient = kNone, rate = kNone, step = kNone, last = kNone;

  SlicedParameter(std::vector<RowSlice> rows, DType dtype, const std::vector<std::string>& names)
      : slices(std::move(rows)) {
    const auto whole = [](uint64_t seed) {
      Numbers numbers = random_numbers(kRows * kColumns, seed);
      for (double& n : numbers) n = std::abs(n);
      return rounded(numbers, DType::kF32);
    };
    weight = tensor("w", dtype, ValueKind::kTrainableWeight, {0, kRows}, whole(1));
    gradient = tensor("g", dtype, ValueKind::kGradient, {0, kRows}, whole(2));
    for (const std::string& name : names) {
      for (size_t i = 0; i < slices.size(); ++i) {
        // A master begins as what its working copy was rounded from.
        const uint64_t seed = name == "master" ? 1 : name.size() + static_cast<uint64_t>(name[0]);
        states[name].push_back(
            tensor(fmt::format("{}.{}", name, i), DType::kF32, ValueKind::kOptimizerState, slices[i], whole(seed)));
      }
    }
    rate = b.input("rate", {DType::kF32, {1}}, ValueKind::kBatch);
    step = b.input("step", {DType::kI32, {1}}, ValueKind::kBatch);
    inputs[rate] = {0.01};
    inputs[step] = {3};
    last = weight;
  }

  ValueId tensor(const std::string& name, DType dtype, ValueKind kind, RowSlice rows, const Numbers& whole) {
    const ValueId id = b.input(name, {dtype, {rows.count, kColumns}}, kind);
    const auto at = [&](int64_t row) { return whole.begin() + row * kColumns; };
    inputs[id] = Numbers(at(rows.first), at(rows.first + rows.count));
    return id;
  }
  [[nodiscard]] ValueId state(const std::string& name, size_t slice) const {
    const auto found = states.find(name);
    return found == states.end() ? kNone : found->second[slice];
  }

  [[nodiscard]] ValueId next(ValueId persistent) const {
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (graph.values[i].updates == persistent) return static_cast<ValueId>(i);
    }
    return kNone;
  }

  // Weight and states after the update, each whole.
  [[nodiscard]] std::map<std::string, Numbers> run(const RunOptions& options) const {
    const Run done(graph, inputs, options);
    std::map<std::string, Numbers> result;
    result["w"] = done.numbers(last);
    for (const auto& [name, parts] : states) {
      for (const ValueId part : parts) {
        const Numbers numbers = done.numbers(next(part));
        result[name].insert(result[name].end(), numbers.begin(), numbers.end());
      }
    }
    return result;
  }
};

// `names` are those of the states, in their order.
void append_update(SlicedParameter& p, size_t i, const OptimizerDef& optimizer, const std::vector<std::string>& names,
                   const OptimizerOptions& options) {
  std::vector<ValueId> states;
  for (const std::string& name : names) {
    if (name != "master") states.push_back(p.state(name, i));
  }
  p.last = optimizer.update(p.b,
                            {.weight = p.last,
                             .master = p.state("master", i),
                             .states = states,
                             .gradient = p.gradient,
                             .learning_rate = p.rate,
                             .step = p.step,
                             .rows = p.slices[i]},
                            options);
}

void check_slices(const OptimizerDef& optimizer, const OptimizerOptions& options, DType dtype) {
  std::vector<std::string> names;
  for (const std::string_view name : optimizer.states(options)) names.emplace_back(name);
  if (dtype == DType::kBF16) names.emplace_back("master");
  const auto append = [&](SlicedParameter& p, size_t i) { append_update(p, i, optimizer, names, options); };
  SlicedParameter whole({{0, kRows}}, dtype, names);
  append(whole, 0);
  const auto want = whole.run({.threads = 1});
  CHECK(want.at("w") != whole.inputs.at(whole.weight));
  const std::vector<std::vector<RowSlice>> splits = {slice_rows({kRows, kColumns}, 5 * kColumns),
                                                     {{0, 1}, {1, 0}, {1, 35}, {36, 1}}};
  for (const std::vector<RowSlice>& split : splits) {
    SlicedParameter sliced(split, dtype, names);
    for (size_t i = 0; i < split.size(); ++i) append(sliced, i);
    CHECK(verify(sliced.graph).empty());
    CHECK(sliced.graph.persistent_root(sliced.last) == sliced.weight);
    for (const bool in_place : {false, true}) {
      for (const int threads : {1, 3}) CHECK(sliced.run({.threads = threads, .in_place = in_place}) == want);
    }
  }
}

}  // namespace

TEST_CASE("an update over slices of a weight gives the bits of the update over the whole, for every optimizer") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const OptimizerDef* optimizer : all_optimizers()) {
      for (const double momentum : {0.0, 0.9})
        check_slices(*optimizer, {.momentum = momentum, .weight_decay = 0.1}, dtype);
    }
  }
}

TEST_CASE("a slice costs its share of the weight, and slices are of about equal size") {
  const auto bytes = [](const SlicedParameter& p, OpId id) { return cost_of(p.graph, id).bytes; };
  const std::vector<RowSlice> split = slice_rows({kRows, kColumns}, 20 * kColumns);
  CHECK(split == std::vector<RowSlice>{{0, 18}, {18, 19}});
  double sum = 0;
  for (const bool whole : {true, false}) {
    SlicedParameter p(whole ? std::vector<RowSlice>{{0, kRows}} : split, DType::kBF16, {"m", "v", "master"});
    for (size_t i = 0; i < p.slices.size(); ++i) {
      append_update(p, i, kAdamw, {"m", "v"}, {});
      sum += (whole ? 1 : -1) * bytes(p, static_cast<OpId>(i));
    }
  }
  CHECK(sum == doctest::Approx(-8));  // learning rate and step once more

  CHECK(slice_rows({10, 7}, 1000) == std::vector<RowSlice>{{0, 10}});
  CHECK(slice_rows({3, 1000}, 10) == std::vector<RowSlice>{{0, 1}, {1, 1}, {2, 1}});
  CHECK(slice_rows({0, 7}, 10) == std::vector<RowSlice>{{0, 0}});
  CHECK(slice_rows({12}, 4) == std::vector<RowSlice>{{0, 4}, {4, 4}, {8, 4}});
}
