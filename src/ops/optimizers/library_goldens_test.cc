// Compares each optimizer with the library that defines it: steps of tests/golden/optimizers/*.json, made by
// tools/make_optimizer_goldens.py. Those whose moments are codes have tests of their own.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "graph/verify.h"
#include "ops/optimizers/optimizer.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

namespace {

constexpr const char* kFolder = SPILLWAY_SOURCE_DIR "/tests/golden/optimizers";

struct TrainedNumbers {
  Numbers weight;
  std::vector<Numbers> states;
  Numbers step_state = {};
};

class Golden {
 public:
  explicit Golden(const nlohmann::json& file)
      : file_(file), optimizer_(find_optimizer(file["optimizer"].get<std::string>())) {
    REQUIRE(optimizer_ != nullptr);
    options_ = options_of(*optimizer_);
    for (const auto& [name, value] : file["options"].items()) {
      CAPTURE(name);
      CHECK(options_.set(name, value.get<double>()));
    }
    for (const int64_t size : file["shape"]) dims_.push_back(size);
    schema_ = optimizer_->states(options_, tensor());
  }

  [[nodiscard]] const StateSchema& schema() const { return schema_; }
  [[nodiscard]] TrainedNumbers begin() const {
    TrainedNumbers numbers{file_["weight"].get<Numbers>(), {}};
    for (const StateSpec& spec : schema_.values)
      numbers.states.emplace_back(type_of(spec, {0, shape()[0]}, shape()).shape.elems(), 0);
    if (optimizer_->step_state) numbers.step_state.resize(static_cast<size_t>(optimizer_->step_state->elems));
    return numbers;
  }
  [[nodiscard]] TrainedNumbers step(const TrainedNumbers& from, size_t step, bool with_master) const {
    Graph graph;
    Builder b(graph);
    std::map<ValueId, Numbers> inputs;
    const auto value = [&](const char* name, const ValueType& type, ValueKind kind, const Numbers& content) {
      const ValueId id = b.input(name, type, kind);
      inputs[id] = content;
      return id;
    };
    UpdateOperands o;
    b.begin_block("layer 0");  // of a layer, which some optimizers treat alone
    o.weight =
        value("w", {with_master ? DType::kBF16 : DType::kF32, shape()}, ValueKind::kTrainableWeight, from.weight);
    if (with_master) o.master = value("master", {DType::kF32, shape()}, ValueKind::kOptimizerState, from.weight);
    for (size_t i = 0; i < schema_.values.size(); ++i) {
      const ValueType type = type_of(schema_.values[i], {0, shape()[0]}, shape());
      o.states.push_back(value(schema_.values[i].name.c_str(), type, ValueKind::kOptimizerState, from.states[i]));
    }
    o.gradient = value("g", {DType::kF32, shape()}, ValueKind::kGradient, file_["gradients"][step].get<Numbers>());
    const nlohmann::json& rate = file_["learning_rate"];  // one, or one for each step
    o.learning_rate = value("lr", {DType::kF32, {1}}, ValueKind::kBatch,
                            {rate.is_array() ? rate[step].get<double>() : rate.get<double>()});
    o.step = value("step", {DType::kI32, {1}}, ValueKind::kBatch, {static_cast<double>(step + 1)});
    ValueId kept = kNone;
    if (const StepState* of_step = optimizer_->step_state) {
      kept = value("kept", {DType::kF32, {of_step->elems}}, ValueKind::kOptimizerState, from.step_state);
      o.step_state = of_step->next(b, kept, o.learning_rate, o.step, options_);
    }
    optimizer_->update(b, o, options_);
    CHECK(verify(graph).empty());
    const Run run(graph, inputs, {.threads = 2});
    const auto next = [&](ValueId persistent) {
      for (size_t i = 0; i < graph.values.size(); ++i) {
        if (graph.values[i].updates == persistent) return run.numbers(static_cast<ValueId>(i));
      }
      return Numbers();
    };
    TrainedNumbers to{next(with_master ? o.master : o.weight), {}};
    for (const ValueId state : o.states) to.states.push_back(next(state));
    if (kept != kNone) to.step_state = next(kept);
    if (with_master) CHECK(next(o.weight) == rounded(to.weight, DType::kBF16));
    return to;
  }
  // Returns the evaluated numbers for trained ones; these themselves if the optimizer has no others.
  [[nodiscard]] Numbers evaluated(const TrainedNumbers& trained) const {
    const EvaluatedWeights* evaluated = optimizer_->evaluated;
    if (!evaluated) return trained.weight;
    const Numbers& of_state = trained.states[evaluated->state];
    std::vector<float> weight(trained.weight.begin(), trained.weight.end()), state(of_state.begin(), of_state.end());
    evaluated->from_trained(weight, state, options_);
    return {weight.begin(), weight.end()};
  }
  [[nodiscard]] size_t steps() const { return file_["gradients"].size(); }

 private:
  [[nodiscard]] Shape shape() const { return dims_.size() == 1 ? Shape{dims_[0]} : Shape{dims_[0], dims_[1]}; }
  [[nodiscard]] TrainedTensor tensor() const { return {shape(), true}; }

  const nlohmann::json& file_;
  const OptimizerDef* optimizer_;
  OptimizerOptions options_;
  std::vector<int64_t> dims_;
  StateSchema schema_;
};

}  // namespace

TEST_CASE("every optimizer follows its library, step after step") {
  // AdamW has its float64 test beside it.
  std::set<std::string> without = {"adamw",     "optimi_adamw", "adamw_8bit", "adamw_torch_8bit", "adamw_torch_4bit",
                                   "lion_8bit", "ademamix_8bit"};
  std::set<std::string> seen;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    std::ifstream stream(entry.path());
    const nlohmann::json file = nlohmann::json::parse(stream);
    if (!file.contains("optimizer")) continue;
    CAPTURE(entry.path().filename().string());
    seen.insert(file["optimizer"].get<std::string>());
    const Golden golden(file);
    for (const bool with_master : {false, true}) {
      CAPTURE(with_master);
      TrainedNumbers numbers = golden.begin();
      for (size_t step = 0; step < golden.steps(); ++step) numbers = golden.step(numbers, step, with_master);
      const double tolerance = file.value("tolerance", 1e-6);
      check_close(numbers.weight, file["weight_after"].get<Numbers>(), DType::kF32, tolerance);
      if (file.contains("evaluated_after"))
        check_close(golden.evaluated(numbers), file["evaluated_after"].get<Numbers>(), DType::kF32, tolerance);
      for (size_t i = 0; i < numbers.states.size(); ++i) {
        const std::string& name = golden.schema().values[i].name;
        CAPTURE(name);
        check_close(numbers.states[i], file["states_after"][name].get<Numbers>(), DType::kF32, tolerance);
      }
    }
  }
  for (const OptimizerDef* optimizer : all_optimizers()) {
    CAPTURE(optimizer->name);
    const std::string name(optimizer->name);
    CHECK((seen.contains(name) || without.contains(name)));
  }
}
