#include "train/generation/generator.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/error.h"
#include "model/adapter.h"
#include "model/weights.h"
#include "plan/verify.h"

namespace spillway::train {
namespace {

DType stored_dtype(const SafetensorsFolder& folder) {
  return folder.find(kEmbedding)->dtype() == DType::kF32 ? DType::kF32 : DType::kBF16;
}

void check_room(std::span<const Program* const> programs, const Device& device) {
  int64_t needed = 0;
  for (const Program* program : programs)
    needed = std::max(needed, program->arena_bytes[static_cast<size_t>(Tier::kDevice)]);
  const int64_t free = device.free_bytes();
  if (!device.shares_host_memory() && needed > free)
    throw machine_error("device", "expected {} of its memory for weights and caches, got {}; use --device cpu",
                        format_bytes(needed), format_bytes(free));
}

}  // namespace

Generator::Generator(const std::filesystem::path& model, const std::filesystem::path& adapter,
                     const GenerationSizes& sizes, ThreadPool& pool, Device& device)
    : pool_(pool), config_(read_model_config(model)) {
  const SafetensorsFolder base = open_model_weights(model, decoder_parameters(config_));
  DecoderOptions options{.dtype = stored_dtype(base)};
  std::optional<SafetensorsFolder> factors;
  if (!adapter.empty()) {
    options.lora = read_adapter_options(adapter);
    fit_to_adapter(config_, *options.lora, adapter);
    factors.emplace(open_adapter_weights(adapter, decoder_parameters(config_, options), *options.lora));
  }
  graphs_ = build_generation_graphs(config_, options, sizes);
  const Graph &decode = graphs_.decode.graph, &prompt = graphs_.prompt.graph;
  const Machine machine{.device = device.kind(), .threads = pool.threads()};
  decode_plan_ = make_plan(decode, machine, {}, saved_policy(Treatment::kKeep));
  prompt_plan_ = make_plan_beside(decode_plan_.choices, prompt, machine, {});
  const std::array<const Program*, 2> programs = {&decode_plan_.program, &prompt_plan_.program};
  const std::vector<std::string> violations = verify_shared_homes(decode, *programs[0], prompt, *programs[1]);
  SPILLWAY_CHECK(violations.empty(), "the plans differ: {}", violations.front());
  check_room(programs, device);
  memory_.emplace(programs, pool, TierOptions{.device = &device});
  decode_.emplace(decode, *programs[0], *memory_);
  prompt_.emplace(prompt, *programs[1], *memory_);
  const ParameterTable& parameters = graphs_.decode.decoder.parameters;
  load_base_weights(parameters, base, decode_->values());
  if (factors) load_adapter_weights(parameters, *factors, decode_->values());
}

std::vector<Generated> Generator::generate(std::span<const Prompt> prompts, GenerationOptions options) {
  options.repetition_penalty = config_.repetition_penalty;
  return train::generate({graphs_, *decode_, *prompt_, pool_}, prompts, options);
}

}  // namespace spillway::train
