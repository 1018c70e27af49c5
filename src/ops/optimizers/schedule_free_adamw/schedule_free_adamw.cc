#include "ops/optimizers/schedule_free_adamw/schedule_free_adamw.h"

#include "base/error.h"
#include "ops/check.h"
#include "ops/optimizers/schedule_free_adamw/formula-inl.h"
#include "ops/optimizers/schedule_free_adamw/numbers.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void schedule_free_step_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void schedule_free_step_cuda(const KernelArgs& args);

namespace schedule_free_adamw_op {
namespace {

constexpr OptimizerOption kBeta1 = mean_option("beta1", 0.9, "adam_beta1"), kR{"r", 0},
                          kWeightLrPower{"weight_lr_power", 2};
constexpr OptimizerOption kOptions[] = {
    kBeta1, mean_option("beta2", 0.999, "adam_beta2"), {"eps", 1e-8, "adam_epsilon"}, kR, kWeightLrPower, kWeightDecay};
constexpr int64_t kAverageElems = sizeof(AverageState) / sizeof(float);
constexpr size_t kDifference = 0;  // index in the states

// With a beta1 of 0, x does not follow from y and z.
std::string_view conflict(const OptimizerOptions& options) {
  return options.real(kBeta1.name) > 0 ? "" : "beta1 above 0";
}

StateSchema states(const OptimizerOptions&, const TrainedTensor&) {
  StateSchema schema;
  schema.add("z_minus_y");
  schema.add("exp_avg_sq");
  return schema;
}

std::vector<ValueType> infer_step(TypeList inputs, const Attributes&) {
  using namespace schedule_free_step_op;
  const ValueType state{DType::kF32, {kAverageElems}};
  expect_same("schedule_free_step", "the state of the step", *inputs[kState], state);
  expect_scalar("schedule_free_step", "learning_rate", *inputs[kLearningRate], DType::kF32);
  expect_scalar("schedule_free_step", "step", *inputs[kStep], DType::kI32);
  return {state};
}

const OpDef kStep{.name = "schedule_free_step",
                  .infer = infer_step,
                  .cost = memory_cost,
                  .in_place = {{0, schedule_free_step_op::kState}},
                  .cpu = schedule_free_step_cpu,
                  .cuda = schedule_free_step_cuda};

ValueId next_step(Builder& builder, ValueId state, ValueId learning_rate, ValueId step,
                  const OptimizerOptions& options) {
  const ValueId next =
      builder.append_one(kStep, {state, learning_rate, step},
                         {{kR.name, options.real(kR.name)}, {kWeightLrPower.name, options.real(kWeightLrPower.name)}});
  builder.update(state, next);
  return next;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "schedule_free_adamw without the number of the step");
  SPILLWAY_CHECK(inputs[update_input::kStepState] != nullptr, "schedule_free_adamw without the state of the step");
  return infer_update("schedule_free_adamw", states({}, {}), inputs, attributes);
}

const OpDef kUpdate{.name = "schedule_free_adamw",
                    .infer = infer,
                    .cost = slice_cost,
                    .cuda_workspace_bytes = formula_bytes<ScheduleFreeFormula>,
                    .in_place = update_in_place(2),
                    .cpu = schedule_free_adamw_cpu,
                    .cuda = schedule_free_adamw_cuda};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kUpdate, operands, options);
}

// Computes x = y + (1 - 1 / beta1) (z - y).
void evaluate(std::span<float> weight, std::span<const float> difference, const OptimizerOptions& options) {
  const auto factor = static_cast<float>(1 - 1 / options.real(kBeta1.name));
  for (size_t i = 0; i < weight.size(); ++i) weight[i] += factor * difference[i];
}

constexpr StepState kStepState{.elems = kAverageElems, .next = next_step};
constexpr EvaluatedWeights kEvaluated{.state = kDifference, .from_trained = evaluate};

}  // namespace
}  // namespace schedule_free_adamw_op

constexpr OptimizerDef kScheduleFreeAdamw{.name = "schedule_free_adamw",
                                          .options = schedule_free_adamw_op::kOptions,
                                          .conflict = schedule_free_adamw_op::conflict,
                                          .states = schedule_free_adamw_op::states,
                                          .step_state = &schedule_free_adamw_op::kStepState,
                                          .evaluated = &schedule_free_adamw_op::kEvaluated,
                                          .update = schedule_free_adamw_op::update};

}  // namespace spillway::ops
