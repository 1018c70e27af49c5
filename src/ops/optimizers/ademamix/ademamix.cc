#include "ops/optimizers/ademamix/ademamix.h"

#include "base/error.h"
#include "ops/optimizers/ademamix/formula-inl.h"

namespace spillway::ops {
namespace ademamix_op {
namespace {

constexpr OptimizerOption kBeta1 = mean_option("beta1", 0.9, "adam_beta1"),
                          kBeta2 = mean_option("beta2", 0.999, "adam_beta2"), kBeta3 = mean_option("beta3", 0.9999),
                          kAlpha{"alpha", 5}, kTBeta3{"t_beta3", 0}, kTAlpha{"t_alpha", 0},
                          kEps{"eps", 1e-8, "adam_epsilon"};
constexpr OptimizerOption kOptions[] = {kBeta1, kBeta2, kBeta3, kAlpha, kTBeta3, kTAlpha, kEps, kWeightDecay};
constexpr OptimizerOption kOptions8bit[] = {kBeta1,  kBeta2, kBeta3,       kAlpha,      kTBeta3,
                                            kTAlpha, kEps,   kWeightDecay, kMin8bitSize};

StateSchema states_in(StateStorage storage) {
  StateSchema schema;
  for (const char* name : {"exp_avg", "exp_avg_slow", "exp_avg_sq"}) schema.add(name, storage);
  return schema;
}

StateSchema states(const OptimizerOptions&, const TrainedTensor&) { return states_in(StateStorage::kF32); }

StateSchema states_8bit(const OptimizerOptions& options, const TrainedTensor& weight) {
  return states_in(has_coded_states(options, weight.shape) ? StateStorage::kCodes8 : StateStorage::kF32);
}

template <StateStorage kStorage>
std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "ademamix without the number of the step");
  return infer_update("ademamix", states_in(kStorage), inputs, attributes);
}

const OpDef kUpdate{.name = "ademamix",
                    .infer = infer<StateStorage::kF32>,
                    .cost = slice_cost,
                    .cuda_workspace_bytes = formula_bytes<AdemamixFormula<false>>,
                    .in_place = update_in_place(3),
                    .cpu = ademamix_cpu,
                    .cuda = ademamix_cuda};

const OpDef kUpdate8bit{.name = "ademamix_8bit",
                        .infer = infer<StateStorage::kCodes8>,
                        .cost = slice_cost,
                        .cuda_workspace_bytes = formula_bytes<AdemamixFormula<false>>,
                        .in_place = update_in_place(6),
                        .cpu = ademamix_8bit_cpu,
                        .cuda = ademamix_8bit_cuda};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kUpdate, operands, options);
}

ValueId update_8bit(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  const bool has_codes = has_coded_states(options, builder.type(operands.weight).shape);
  return append_update(builder, has_codes ? kUpdate8bit : kUpdate, operands, options);
}

}  // namespace
}  // namespace ademamix_op

constexpr OptimizerDef kAdemamix{
    .name = "ademamix", .options = ademamix_op::kOptions, .states = ademamix_op::states, .update = ademamix_op::update};
constexpr OptimizerDef kAdemamix8bit{.name = "ademamix_8bit",
                                     .options = ademamix_op::kOptions8bit,
                                     .keeps_embeddings_in_f32 = true,
                                     .states = ademamix_op::states_8bit,
                                     .update = ademamix_op::update_8bit};

}  // namespace spillway::ops
