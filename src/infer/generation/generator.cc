#include "infer/generation/generator.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "infer/inference_model.h"
#include "model/decoder/layer.h"
#include "plan/hiding_count.h"
#include "plan/verify.h"

namespace spillway::infer {

Generator::Generator(const GeneratorOptions& options, ThreadPool& pool, Device& device)
    : pool_(pool), penalties_(options.penalties) {
  InferenceModel inference = read_inference_model(options.model, options.adapter);
  model_ = inference.model;
  if (penalties_.repetition == 0) penalties_.repetition = text().repetition_penalty;
  plan(inference, options, device);
  if (options.budget.device_bytes) read_longer_prompts(inference.options, options, device);
  const Graph &decode = graphs_.decode.graph, &prompt = graphs_.prompt.graph;
  const std::array<const Program*, 2> programs = {&plans_[0].program, &plans_[1].program};
  const std::vector<std::string> violations = verify_shared_homes(decode, *programs[0], prompt, *programs[1]);
  SPILLWAY_CHECK(violations.empty(), "the plans differ: {}", violations.front());
  memory_.emplace(programs, pool, TierOptions{.device = &device, .files = stored_.files, .in_files = stored_.places});
  decode_.emplace(decode, *programs[0], *memory_);
  prompt_.emplace(prompt, *programs[1], *memory_);
  inference.load(graphs_.decode.model.parameters, decode_->values());
}

void Generator::plan(InferenceModel& inference, const GeneratorOptions& options, const Device& device) {
  const auto build = [&]() -> std::vector<const Graph*> {
    graphs_ = build_generation_graphs(*model_, inference.options, options.sizes);
    stored_ = {};
    if (options.budget.device_bytes) add_stored_weights(graphs_.decode.model.parameters, inference.base, stored_);
    return {&graphs_.decode.graph, &graphs_.prompt.graph};
  };
  std::vector<const Graph*> graphs = build();
  if (options.budget.device_bytes && has_mixture(*model_)) {
    std::optional<std::vector<Plan>> plans = plans_within(graphs, stored_, options.budget, pool_.threads(), device);
    if (plans && std::none_of(plans->begin(), plans->end(), waits_for_transfers)) {
      plans_ = std::move(*plans);
      return;
    }
    inference.stream_experts();
    graphs = build();
  }
  plans_ = plan_inference(graphs, stored_, options.budget, pool_.threads(), device);
}

// Where a run over prompts waits for weights, reads more tokens at a time. That takes memory from weights that stay, so
// it has to make reading all prompts faster by more than it makes decoding the longest answer slower.
void Generator::read_longer_prompts(const ModelOptions& model, const GeneratorOptions& options, const Device& device) {
  const auto seconds = [&](const std::vector<Plan>& plans, const GenerationSizes& sizes) {
    return static_cast<double>(div_ceil(sizes.all_tokens, sizes.prompt_tokens)) *
               plans[1].simulation.micro_step_seconds +
           static_cast<double>(sizes.answer_tokens) * plans[0].simulation.micro_step_seconds;
  };
  for (int64_t count = longer_runs(plans_[1], options.sizes); count > 1; count /= 2) {
    const GenerationSizes sizes = options.sizes.with_longer_runs(count);
    GenerationGraphs graphs = build_generation_graphs(*model_, model, sizes);
    std::optional<std::vector<Plan>> plans =
        plans_within({&graphs.decode.graph, &graphs.prompt.graph}, stored_, options.budget, pool_.threads(), device);
    if (!plans || kWorthOrder * seconds(*plans, sizes) > seconds(plans_, options.sizes)) continue;
    graphs_ = std::move(graphs);
    plans_ = std::move(*plans);
    return;
  }
}

std::vector<Generated> Generator::generate(std::span<const Prompt> prompts, GenerationOptions options) {
  options.penalties = penalties_;
  return infer::generate(programs(), prompts, options);
}

}  // namespace spillway::infer
