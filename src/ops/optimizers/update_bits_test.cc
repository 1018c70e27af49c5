// Tests that an update gives the same bits on a GPU and on the host, for any operands, since a plan may choose either.
#include <doctest/doctest.h>

#include <cmath>

#include "graph/verify.h"
#include "ops/clip_factor/clip_factor.h"
#include "ops/optimizers/optimizer.h"
#include "ops/squared_norm/squared_norm.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

namespace {

struct UpdateCase {
  const OptimizerDef* optimizer;
  DType gradient = DType::kF32;
  bool has_master = false;
  double momentum = 0;
  double weight_decay = 0;
  double max_norm = 0;  // 0: the update takes no clip factor
};

// Returns numbers in [-1, 1), every third of them so small that its square is no normal number.
Numbers numbers_of(int64_t count, uint64_t seed) {
  Numbers numbers = random_numbers(count, seed);
  for (size_t i = 0; i < numbers.size(); i += 3) numbers[i] *= 1e-20;
  return numbers;
}

// A model of three weights of odd sizes, the largest in slices of odd alignments.
class UpdateUnderTest {
 public:
  explicit UpdateUnderTest(const UpdateCase& c) : case_(c) {
    rate_ = input("rate", {DType::kF32, {1}}, ValueKind::kBatch);
    step_ = input("step", {DType::kI32, {1}}, ValueKind::kBatch);
    if (const StepState* kept = c.optimizer->step_state)
      step_state_ = kept->next(b_, input("kept", {DType::kF32, {kept->elems}}, ValueKind::kOptimizerState), rate_,
                               step_, options());
    add_weight({37, 257}, odd_slices());
    add_weight({37, 320}, uses_whole_weights() ? whole(37) : std::vector<RowSlice>{{0, 4}, {4, 0}, {4, 28}, {32, 5}});
    add_weight({3}, {{0, 3}});
    add_weight({3, 2048}, {{0, 3}});
    const ClipFactor clip = clip_factor(b_, squares_, c.max_norm);
    for (const Weight& weight : weights_) update(weight, c.max_norm > 0 ? clip.factor : kNone);
    for (const std::string& violation : verify(graph_)) FAIL_CHECK(violation);
  }

  // Runs one step; the next begins with its results.
  void run_step(int32_t step) {
    CAPTURE(step);
    inputs_[rate_] = {1e-3 / step};
    inputs_[step_] = {static_cast<double>(step)};
    for (const Weight& w : weights_)
      inputs_[w.gradient] = numbers_of(graph_.value(w.gradient).type.shape.elems(), static_cast<uint64_t>(step));
    check_bits_of_cpu(graph_, inputs_, {.threads = 2});
    const Run run(graph_, inputs_);
    std::map<ValueId, Numbers> next = inputs_;
    // For a weight that is updated in slices the last version counts.
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      if (graph_.values[i].updates != kNone) next[graph_.persistent_root(id)] = run.numbers(id);
    }
    inputs_ = std::move(next);
  }

 private:
  struct Weight {
    ValueId weight, gradient;
    std::vector<RowSlice> slices;
  };

  ValueId input(const std::string& name, const ValueType& type, ValueKind kind) {
    const ValueId id = b_.input(fmt::format("{}.{}", name, inputs_.size()), type, kind);
    inputs_[id] = numbers_of(type.shape.elems(), static_cast<uint64_t>(id));
    return id;
  }

  void add_weight(const Shape& shape, const std::vector<RowSlice>& slices) {
    const DType dtype = case_.has_master ? DType::kBF16 : DType::kF32;
    const ValueId weight = input("w", {dtype, shape}, ValueKind::kTrainableWeight);
    const ValueId gradient = input("g", {case_.gradient, shape}, ValueKind::kGradient);
    weights_.push_back({weight, gradient, slices});
    squares_.push_back(squared_norm(b_, gradient));
  }

  [[nodiscard]] OptimizerOptions options() const {
    return options_of(*case_.optimizer,
                      {{"beta2", 0.95}, {"momentum", case_.momentum}, {"weight_decay", case_.weight_decay}});
  }
  static std::vector<RowSlice> whole(int64_t rows) { return {{0, rows}}; }
  [[nodiscard]] int64_t slice_unit(const Shape& shape) const {
    return case_.optimizer->states(options(), {shape}).slice_unit;
  }
  [[nodiscard]] bool uses_whole_weights() const { return slice_unit({37, 320}) == 0; }
  [[nodiscard]] std::vector<RowSlice> odd_slices() const {
    if (slice_unit({37, 257}) != 1) return whole(37);
    return {{0, 1}, {1, 0}, {1, 20}, {21, 16}};
  }

  // Returns a state of some rows.
  ValueId state(const StateSpec& spec, const Weight& w, const RowSlice& rows) {
    const ValueType type = type_of(spec, rows, graph_.value(w.weight).type.shape);
    const ValueId id = input(spec.name, type, ValueKind::kOptimizerState);
    if (type.dtype == DType::kU8) inputs_[id] = random_integers(type.shape.elems(), static_cast<uint64_t>(id), 256);
    for (double& number : inputs_[id]) number = std::abs(number);  // roots are drawn of some
    return id;
  }

  void update(const Weight& w, ValueId clip) {
    ValueId weight = w.weight;
    for (const RowSlice& rows : w.slices) {
      const ValueId master = case_.has_master ? state({.name = "master"}, w, rows) : kNone;
      std::vector<ValueId> states;
      for (const StateSpec& spec : case_.optimizer->states(options(), trained_tensor(b_, w.weight)).values)
        states.push_back(state(spec, w, rows));
      weight = case_.optimizer->update(b_, {weight, master, states, step_state_, w.gradient, clip, rate_, step_, rows},
                                       options());
    }
  }

  UpdateCase case_;
  Graph graph_;
  Builder b_{graph_};
  std::map<ValueId, Numbers> inputs_;
  std::vector<Weight> weights_;
  std::vector<ValueId> squares_;
  ValueId rate_ = kNone, step_ = kNone, step_state_ = kNone;
};

void check_update(const UpdateCase& c) {
  CAPTURE(name_of(c.gradient));
  CAPTURE(c.has_master);
  CAPTURE(c.momentum);
  CAPTURE(c.max_norm);
  UpdateUnderTest update(c);
  for (const int32_t step : {1, 2, 1'000'003}) update.run_step(step);
}

}  // namespace

TEST_CASE("every optimizer gives the bits of the CPU: bf16 and f32, clipped, decayed, in slices, step after step") {
  for (const OptimizerDef* optimizer : all_optimizers()) {
    CAPTURE(optimizer->name);
    for (const bool has_master : {false, true}) {
      check_update({.optimizer = optimizer, .has_master = has_master, .momentum = 0.9, .weight_decay = 0.1});
      check_update({.optimizer = optimizer, .gradient = DType::kBF16, .has_master = has_master, .max_norm = 0.7});
    }
  }
}

TEST_CASE("norms give the bits of the CPU: parts of a block, whole blocks, more blocks than sums over them") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t elems : {0, 1, 255, 257, 4095, 4096, 4097, 70'003, 1025 * 4096 + 5}) {
      if (dtype == DType::kF32 && elems > 1'000'000) continue;
      CAPTURE(elems);
      Graph graph;
      Builder b(graph);
      const ValueId x = b.input("x", {dtype, {elems}}, ValueKind::kGradient);
      (void)clip_factor(b, std::vector<ValueId>{squared_norm(b, x), squared_norm(b, x)}, 0.1);
      check_bits_of_cpu(graph, {{x, numbers_of(elems, 1)}});
    }
  }
}
