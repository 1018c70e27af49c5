#include "train/generation/generator.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "plan/verify.h"
#include "train/inference_model.h"

namespace spillway::train {
namespace {

void check_room(int64_t needed, const Device& device) {
  const int64_t free = device.free_bytes();
  if (!device.shares_host_memory() && needed > free)
    throw machine_error("device", "expected {} of its memory for weights and caches, got {}; use --device cpu",
                        format_bytes(needed), format_bytes(free));
}

}  // namespace

void Generator::make_plans(const GeneratorOptions& options, const SafetensorsFolder& base, Device& device) {
  const Graph &decode = graphs_.decode.graph, &prompt = graphs_.prompt.graph;
  Machine machine = options.machine;
  machine.device = device.kind();
  machine.threads = pool_.threads();
  Policy policy = saved_policy(Treatment::kKeep);
  Budget budget;
  if (options.device_bytes) {
    add_stored_weights(graphs_.decode.model.parameters, base, stored_);
    policy.in_files = stored_.in_files(decode.values.size());
    // A disk tier, but no room on it: of the disk there are only the model's files.
    budget = {.device = options.device_bytes, .host = 0, .disk = 1};
  }
  const std::vector<bool> in_files = adopted_flags(policy.in_files, decode, prompt);
  int64_t needed = 0;
  // Prompts may need more beside the weights than decoding does: then it is planned again, with as much less.
  for (bool again = true; again;) {
    decode_plan_ = make_plan(decode, machine, budget, policy);
    prompt_plan_ = make_plan_beside(decode_plan_.choices, prompt, machine, {.device = options.device_bytes}, in_files);
    needed = std::max(decode_plan_.peaks[0].bytes, prompt_plan_.peaks[0].bytes);
    again = options.device_bytes && decode_plan_.fits && needed > *options.device_bytes;
    if (again) budget.device = decode_plan_.peaks[0].bytes - (needed - *options.device_bytes);
  }
  if (options.device_bytes && needed > *options.device_bytes)
    throw input_error("--memory.device", "expected at least {}, got {}; raise it, or ask for fewer or shorter answers",
                      format_bytes(needed), format_bytes(*options.device_bytes));
}

Generator::Generator(const GeneratorOptions& options, ThreadPool& pool, Device& device) : pool_(pool) {
  const InferenceModel inference = read_inference_model(options.model, options.adapter);
  model_ = inference.model;
  repetition_penalty_ = options.repetition_penalty > 0 ? options.repetition_penalty : text().repetition_penalty;
  graphs_ = build_generation_graphs(*model_, inference.options, options.sizes);
  make_plans(options, inference.base, device);
  const Graph &decode = graphs_.decode.graph, &prompt = graphs_.prompt.graph;
  const std::array<const Program*, 2> programs = {&decode_plan_.program, &prompt_plan_.program};
  const std::vector<std::string> violations = verify_shared_homes(decode, *programs[0], prompt, *programs[1]);
  SPILLWAY_CHECK(violations.empty(), "the plans differ: {}", violations.front());
  check_room(device_bytes(), device);
  memory_.emplace(programs, pool, TierOptions{.device = &device, .files = stored_.files, .in_files = stored_.places});
  decode_.emplace(decode, *programs[0], *memory_);
  prompt_.emplace(prompt, *programs[1], *memory_);
  inference.load(graphs_.decode.model.parameters, decode_->values());
}

std::vector<Generated> Generator::generate(std::span<const Prompt> prompts, GenerationOptions options) {
  options.repetition_penalty = repetition_penalty_;
  return train::generate({graphs_, *decode_, *prompt_, pool_}, prompts, options);
}

int64_t Generator::device_bytes() const {
  const auto bytes = [](const Plan& plan) { return nth(plan.program.arena_bytes, Tier::kDevice); };
  return std::max(bytes(decode_plan_), bytes(prompt_plan_));
}

}  // namespace spillway::train
