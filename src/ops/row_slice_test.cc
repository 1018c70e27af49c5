// Tests optimizers over slices of a weight.
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

// Rows whose slices begin at any alignment; and some that begin blocks of 256 every fourth row, the last of them short.
const Shape kOddRows = {37, 257}, kBlockRows = {37, 320};

// The tensors of a weight, split into rows as told. Names: "w", "g", and "m.0", "m.1", ... of states.
struct SlicedParameter {
  Graph graph;
  Builder b{graph};
  std::map<ValueId, Numbers> inputs;
  Shape shape;
  std::vector<RowSlice> slices;
  std::map<std::string, std::vector<ValueId>> states;  // a slice each
  ValueId weight = kNone, gradient = kNone, rate = kNone, step = kNone, step_state = kNone, last = kNone;

  SlicedParameter(const Shape& s, std::vector<RowSlice> rows, DType dtype, const std::vector<StateSpec>& specs)
      : shape(s), slices(std::move(rows)) {
    const RowSlice all{0, shape[0]};
    weight = value("w", {dtype, shape}, ValueKind::kTrainableWeight, some({.name = "w"}, all), 0);
    gradient = value("g", {dtype, shape}, ValueKind::kGradient, some({.name = "g"}, all), 0);
    for (const StateSpec& spec : specs) {
      const Numbers whole = some(spec, all);
      size_t first = 0;
      for (size_t i = 0; i < slices.size(); ++i) {
        const ValueType type = type_of(spec, slices[i], shape);
        states[spec.name].push_back(
            value(fmt::format("{}.{}", spec.name, i), type, ValueKind::kOptimizerState, whole, first));
        first += static_cast<size_t>(type.shape.elems());
      }
    }
    rate = b.input("rate", {DType::kF32, {1}}, ValueKind::kBatch);
    step = b.input("step", {DType::kI32, {1}}, ValueKind::kBatch);
    inputs[rate] = {0.01};
    inputs[step] = {3};
    last = weight;
  }

  // Returns codes or positive numbers. A master begins as numbers whose rounding is its working copy.
  [[nodiscard]] Numbers some(const StateSpec& spec, const RowSlice& rows) const {
    const ValueType type = type_of(spec, rows, shape);
    const uint64_t seed = spec.name == "master" ? 'w' + 1 : spec.name.size() + static_cast<uint64_t>(spec.name[0]);
    if (type.dtype == DType::kU8) return random_integers(type.shape.elems(), seed, 256);
    Numbers numbers = random_numbers(type.shape.elems(), seed);
    for (double& n : numbers) n = std::abs(n);
    return rounded(numbers, DType::kF32);
  }

  ValueId value(const std::string& name, const ValueType& type, ValueKind kind, const Numbers& whole, size_t first) {
    const ValueId id = b.input(name, type, kind);
    const auto begin = whole.begin() + static_cast<int64_t>(first);
    inputs[id] = Numbers(begin, begin + type.shape.elems());
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

  // Returns weight and states after the update, each whole.
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

// `specs` are those of the states, in their order, and of a master, if there is one.
void append_update(SlicedParameter& p, size_t i, const OptimizerDef& optimizer, const std::vector<StateSpec>& specs,
                   const OptimizerOptions& options) {
  std::vector<ValueId> states;
  for (const StateSpec& spec : specs) {
    if (spec.name != "master") states.push_back(p.state(spec.name, i));
  }
  p.last = optimizer.update(p.b,
                            {.weight = p.last,
                             .master = p.state("master", i),
                             .states = states,
                             .step_state = p.step_state,
                             .gradient = p.gradient,
                             .learning_rate = p.rate,
                             .step = p.step,
                             .rows = p.slices[i]},
                            options);
}

void check_slices(const OptimizerDef& optimizer, const OptimizerOptions& options, DType dtype, const Shape& shape,
                  const std::vector<RowSlice>& uneven) {
  const StateSchema schema = optimizer.states(options, {shape});
  std::vector<StateSpec> specs = schema.values;
  if (dtype == DType::kBF16) specs.push_back({.name = "master"});
  const auto append = [&](SlicedParameter& p, size_t i) {
    if (const StepState* kept = optimizer.step_state; kept && i == 0) {
      const ValueId last = p.value("kept", {DType::kF32, {kept->elems}}, ValueKind::kOptimizerState,
                                   Numbers(static_cast<size_t>(kept->elems), 0.5), 0);
      p.step_state = kept->next(p.b, last, p.rate, p.step, options);
    }
    append_update(p, i, optimizer, specs, options);
  };
  SlicedParameter whole(shape, {{0, shape[0]}}, dtype, specs);
  append(whole, 0);
  const auto want = whole.run({.threads = 1});
  CHECK(want.at("w") != whole.inputs.at(whole.weight));
  for (const std::vector<RowSlice>& split : {slice_rows(shape, 5 * shape[1], schema.slice_unit), uneven}) {
    if (schema.slice_unit == 0) continue;
    CHECK(split.size() > 2);
    SlicedParameter sliced(shape, split, dtype, specs);
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
      CAPTURE(optimizer->name);
      for (const double momentum : {0.0, 0.9}) {
        const OptimizerOptions options = options_of(*optimizer, {{"momentum", momentum}, {"weight_decay", 0.1}});
        check_slices(*optimizer, options, dtype, kBlockRows, {{0, 4}, {4, 0}, {4, 28}, {32, 5}});
        if (optimizer->states(options, {kOddRows}).slice_unit == 1)
          check_slices(*optimizer, options, dtype, kOddRows, {{0, 1}, {1, 0}, {1, 35}, {36, 1}});
      }
    }
  }
}

TEST_CASE("a slice costs its share of the weight, and slices are of about equal size") {
  const auto bytes = [](const SlicedParameter& p, OpId id) { return cost_of(p.graph, id).bytes; };
  const int64_t rows = kOddRows[0];
  const std::vector<RowSlice> split = slice_rows(kOddRows, 20 * kOddRows[1]);
  CHECK(split == std::vector<RowSlice>{{0, 18}, {18, 19}});
  double sum = 0;
  for (const bool whole : {true, false}) {
    SlicedParameter p(kOddRows, whole ? std::vector<RowSlice>{{0, rows}} : split, DType::kBF16,
                      {{.name = "m"}, {.name = "v"}, {.name = "master"}});
    for (size_t i = 0; i < p.slices.size(); ++i) {
      append_update(p, i, kAdamw, {{.name = "m"}, {.name = "v"}}, {});
      sum += (whole ? 1 : -1) * bytes(p, static_cast<OpId>(i));
    }
  }
  CHECK(sum == doctest::Approx(-8));  // learning rate and step once more

  CHECK(slice_rows({10, 7}, 1000) == std::vector<RowSlice>{{0, 10}});
  CHECK(slice_rows({3, 1000}, 10) == std::vector<RowSlice>{{0, 1}, {1, 1}, {2, 1}});
  CHECK(slice_rows({0, 7}, 10) == std::vector<RowSlice>{{0, 0}});
  CHECK(slice_rows({10, 320}, 640, 256) == std::vector<RowSlice>{{0, 4}, {4, 4}, {8, 2}});
  CHECK(slice_rows({10, 1001}, 2000, 256) == std::vector<RowSlice>{{0, 10}});
  CHECK(slice_rows({1000}, 300, 256) == std::vector<RowSlice>{{0, 256}, {256, 256}, {512, 256}, {768, 232}});
  CHECK(slice_rows({10, 7}, 7, 0) == std::vector<RowSlice>{{0, 10}});
  CHECK(slice_rows({12}, 4) == std::vector<RowSlice>{{0, 4}, {4, 4}, {8, 4}});
}
