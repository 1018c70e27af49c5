#include "job/programs.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/operation.h"
#include "graph/verify.h"
#include "plan/planner.h"
#include "plan/testing/random_plan.h"
#include "plan/verify.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

train::TrainingGraphOptions options_of(bool lora) {
  train::TrainingGraphOptions options{.accumulates = true};
  options.model = {.dtype = DType::kF32, .tokens = 48, .max_sequences = 5, .train_base = !lora};
  if (lora) options.model.lora = LoraOptions{.r = 4, .alpha = 8, .dropout = 0.1};
  return options;
}

// Token ids go to a table in host memory, and its rows come from there.
bool is_of_lookup(const Graph& graph, ValueId value) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Operation& op) {
    return op.def->table_input >= 0 && (op.inputs[0] == value || op.outputs[0] == value);
  });
}

}  // namespace

TEST_CASE("evaluation has training's weights where training has them, whatever lives where, and moves nothing else") {
  const ModelPtr model = read_model(kGoldenModels / "qwen3");
  Machine machine{.threads = 2};
  machine.link_bytes_per_second.fill(1e9);
  for (const bool lora : {false, true}) {
    CAPTURE(lora);
    const train::TrainingGraphOptions options = options_of(lora);
    const train::TrainingGraph training = train::build_training_graph(*model, options);
    const train::JobProgram evaluation = train::evaluation_program(*model, options, training);
    CHECK(verify(evaluation.graph).empty());
    CHECK(evaluation.graph.blocks.size() == training.graph.blocks.size());
    CHECK(evaluation.graph.sections.size() == 1);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      RandomStream random(seed, 0);
      const Choices choices = random_choices(training.graph, random);
      const Plan first = plan_for(training.graph, machine, choices);
      const Plan beside = make_plan_beside(training.graph, choices, evaluation.graph, machine, {});
      CHECK(verify(evaluation.graph, beside.program).empty());
      CHECK(verify_shared_homes(training.graph, first.program, evaluation.graph, beside.program).empty());
      for (const Instruction& i : beside.program.instructions) {
        if (i.kind != Instruction::Kind::kCopy) continue;
        const ValueId moved = i.inputs[0].value;
        CHECK((evaluation.graph.is_persistent(moved) || is_of_lookup(evaluation.graph, moved)));
      }
    }
  }
}

TEST_CASE("a home that two programs do not share is reported") {
  const ModelPtr model = read_model(kGoldenModels / "qwen3");
  const train::TrainingGraphOptions options = options_of(true);
  const train::TrainingGraph training = train::build_training_graph(*model, options);
  const train::JobProgram evaluation = train::evaluation_program(*model, options, training);
  const Choices choices = uniform_choices(training.graph, ActivationPolicy::kKeep);
  const Plan first = plan_for(training.graph, {}, choices);
  Plan beside = make_plan_beside(training.graph, choices, evaluation.graph, {}, {});
  beside.program.homes[1].place.offset += 64;
  const std::vector<std::string> found =
      verify_shared_homes(training.graph, first.program, evaluation.graph, beside.program);
  REQUIRE(found.size() == 1);
  CHECK(found[0] ==
        evaluation.graph.value(beside.program.homes[1].value).name + " has its home elsewhere in evaluation");
}
