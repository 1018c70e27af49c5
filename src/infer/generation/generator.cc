#include "infer/generation/generator.h"

#include <array>

#include "base/error.h"
#include "infer/inference_model.h"
#include "plan/verify.h"

namespace spillway::infer {

Generator::Generator(const GeneratorOptions& options, ThreadPool& pool, Device& device)
    : pool_(pool), penalties_(options.penalties) {
  const InferenceModel inference = read_inference_model(options.model, options.adapter);
  model_ = inference.model;
  if (penalties_.repetition == 0) penalties_.repetition = text().repetition_penalty;
  graphs_ = build_generation_graphs(*model_, inference.options, options.sizes);
  if (options.budget.device_bytes) add_stored_weights(graphs_.decode.model.parameters, inference.base, stored_);
  const Graph &decode = graphs_.decode.graph, &prompt = graphs_.prompt.graph;
  plans_ = plan_inference({&decode, &prompt}, stored_, options.budget, pool.threads(), device);
  const std::array<const Program*, 2> programs = {&plans_[0].program, &plans_[1].program};
  const std::vector<std::string> violations = verify_shared_homes(decode, *programs[0], prompt, *programs[1]);
  SPILLWAY_CHECK(violations.empty(), "the plans differ: {}", violations.front());
  memory_.emplace(programs, pool, TierOptions{.device = &device, .files = stored_.files, .in_files = stored_.places});
  decode_.emplace(decode, *programs[0], *memory_);
  prompt_.emplace(prompt, *programs[1], *memory_);
  inference.load(graphs_.decode.model.parameters, decode_->values());
}

std::vector<Generated> Generator::generate(std::span<const Prompt> prompts, GenerationOptions options) {
  options.penalties = penalties_;
  return infer::generate(programs(), prompts, options);
}

}  // namespace spillway::infer
