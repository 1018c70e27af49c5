#include "job/adapter_restart.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "io/convert.h"
#include "job/state_pruning.h"
#include "job/state_tensors.h"
#include "model/fresh_factors.h"
#include "model/weights.h"

namespace spillway::train {
namespace {

constexpr const char* kRelora = "relora";

// Returns the seed of the factors that begin in a step.
uint64_t seed_of(const Job& job, int64_t step) {
  const auto words =
      philox(static_cast<uint64_t>(job.config.seed), random_stream_of(kRelora), static_cast<uint64_t>(step));
  return uint64_t{words[0]} << 32 | words[1];
}

void begin_anew(const TrainingGraph& training, const TrainedWeight& t, uint64_t seed, ValueStore& store) {
  const Parameter& p = training.parameter_of(t);
  const auto fill = [&](std::span<float> values, int64_t first) {
    if (p.role == ParameterRole::kLoraA) return initialise_lora_a(values, first, p, seed);
    std::fill(values.begin(), values.end(), 0.0F);
  };
  write_exact(store, training, t, p.name,
              [&](const TensorView& piece, int64_t first) { fill_from_f32(piece, first, fill); });
}

}  // namespace

void check_restarts(const Job& job, const ParameterTable& parameters) {
  if (!job.graph.model.lora || !job.graph.model.lora->restarts) return;
  const LoraOptions& lora = *job.graph.model.lora;
  if (lora.dora || !lora.modules_to_save.empty() || !lora.target_parameters.empty())
    throw input_error("lora_model_dir",
                      "expected an adapter of linear layers alone beside relora, which merges its products, got one "
                      "that trains more; name another, or remove relora");
  if (!job.model->text()) throw input_error(kRelora, "expected a model of text, got one of clips; remove relora");
  if (!has_prunable_moments(*job.graph.optimizer))
    throw input_error("optimizer", "expected adamw or adamw_8bit beside relora, got {}; write one of them",
                      job.graph.optimizer->name);
  for (const Parameter& p : parameters) {
    if (!p.merges_adapter) continue;
    if (p.source.storage->is_coded())
      throw input_error(kRelora,
                        "expected a base whose files are not quantised, as a merged one is written in full, got {} in "
                        "{}; name one that is not, which load_in_4bit quantises for the run",
                        p.module, p.source.storage->name());
    if (p.source.name != p.written_name())
      throw input_error(kRelora,
                        "expected layers that have a tensor of their own in the base's files, got {}, which is {}; "
                        "leave it out of lora_target_modules",
                        p.module, p.source.name);
  }
}

void restart_adapter(const Job& job, const TrainingGraph& training, const SafetensorsFolder& merged, int64_t step,
                     ValueStore& store) {
  load_merged_weights(training.model.parameters, merged, store);
  const uint64_t seed = seed_of(job, step);
  for (const TrainedWeight& t : training.trained_of_model())
    if (training.parameter_of(t).is_factor()) begin_anew(training, t, seed, store);
  prune_moments(training, *job.config.adapter->restarts, static_cast<uint64_t>(job.config.seed), step, store);
}

}  // namespace spillway::train
