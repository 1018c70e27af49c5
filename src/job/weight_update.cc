#include "job/weight_update.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "model/fresh_factors.h"
#include "ops/optimizers/bf16_update.h"

namespace spillway::train {
namespace {

ValueId rate_of(const TrainingGraph& training, const TrainingGraphOptions& options, const std::string& weight) {
  const auto ratio = options.rate_ratios.find(weight);
  if (ratio == options.rate_ratios.end() || ratio->second == 1) return training.learning_rate;
  const auto has_ratio = [&](const OtherRate& one) { return one.ratio == ratio->second; };
  return std::find_if(training.other_rates.begin(), training.other_rates.end(), has_ratio)->value;
}

}  // namespace

ops::OptimizerOptions optimizer_options_of(const TrainingGraph& training, const TrainingGraphOptions& options,
                                           const TrainedWeight& t) {
  ops::OptimizerOptions own = options.optimizer_options;
  const Parameter& p = training.parameter_of(t);
  const bool spared = options.optimizer->spares_embeddings && p.has_row_per_token();
  if ((!p.decays() && !options.decays_all) || spared || options.undecayed.contains(training.graph.value(t.weight).name))
    own.set(ops::kWeightDecay.name, 0.0);
  if (options.optimizer->keeps_embeddings_in_f32 && p.role == ParameterRole::kEmbedding)
    own.set(ops::kMin8bitSize.name, std::numeric_limits<double>::infinity());
  return own;
}

ValueId append_update(Builder& builder, const TrainingGraph& training, const TrainingGraphOptions& options,
                      const TrainedWeight& t, const StateSlice& slice, ops::UpdateOperands operands) {
  const ops::OptimizerOptions own = optimizer_options_of(training, options, t);
  const Parameter& p = training.parameter_of(t);
  const std::string& name = training.graph.value(t.weight).name;
  operands.master = slice.master;
  operands.states = slice.states;
  operands.learning_rate = rate_of(training, options, name);
  operands.step = t.step;
  operands.rows = slice.rows;
  if (p.dtype == DType::kF32 || slice.master != kNone) return options.optimizer->update(builder, operands, own);
  std::optional<ops::StochasticRounding> rounding;
  if (options.rounding_seed) {
    rounding = {
        .seed = *options.rounding_seed, .stream = static_cast<int64_t>(random_stream_of(name)), .step = training.step};
  }
  return ops::update_bf16(builder, *options.optimizer, operands, own, rounding);
}

ValueId updated_slice(const Graph& graph, const StateSlice& slice, ValueId weight) {
  if (slice.master == kNone) return weight;
  for (const ValueId output : graph.ops.back().outputs)
    if (graph.value(output).updates == slice.master) return output;
  report_bug(__FILE__, __LINE__, "updated_slice", "an update leaves its master as it is");
}

}  // namespace spillway::train
