// Generation without training: loads a model folder, optionally with an adapter, into its own memory.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "backend/device.h"
#include "base/parallel.h"
#include "infer/generation/decoder.h"
#include "infer/generation/generate.h"
#include "infer/inference_plan.h"
#include "model/model.h"
#include "runtime/executor.h"

namespace spillway::infer {

struct InferenceModel;

struct GeneratorOptions {
  std::filesystem::path model;
  std::filesystem::path adapter;  // a PEFT folder, or empty
  GenerationSizes sizes;
  Penalties penalties = {.repetition = 0};  // of generate(); a repetition of 0: the model's
  InferenceBudget budget = {};
};

class Generator {
 public:
  // Plans, and reads the weights. Borrows pool and device. Throws InputError for folders that do not fit together and a
  // budget that is too small, MachineError if the device has too little memory.
  Generator(const GeneratorOptions& options, ThreadPool& pool, Device& device = cpu_device());

  // Generates with penalties() in place of those in `options`. REQUIRES: as the free function generate().
  [[nodiscard]] std::vector<Generated> generate(std::span<const Prompt> prompts, GenerationOptions options = {});
  // Returns a decoder for sequences that come and go. It uses the generator's memory: do not use both at the same time.
  [[nodiscard]] Decoder decoder() { return Decoder(programs()); }
  [[nodiscard]] const Penalties& penalties() const { return penalties_; }
  [[nodiscard]] const TextModel& text() const { return *model_->text(); }
  // Returns the most tokens of prompts that a run reads.
  [[nodiscard]] int64_t prompt_tokens() const { return graphs_.prompt.graph.tokens(); }
  // Returns the memory of a tier that the programs take.
  [[nodiscard]] int64_t peak_bytes(Tier tier = Tier::kDevice) const { return peak_bytes_of(plans_, tier); }

 private:
  // Builds the graphs and plans them, with experts that come and go by themselves only where not everything can stay.
  void plan(InferenceModel& inference, const GeneratorOptions& options, const Device& device);
  void read_longer_prompts(const ModelOptions& model, const GeneratorOptions& options, const Device& device);
  [[nodiscard]] GenerationPrograms programs() {
    return {{graphs_.decode.graph, graphs_.decode.model, *decode_},
            {graphs_.prompt.graph, graphs_.prompt.model, *prompt_},
            graphs_.decode.choice,
            pool_};
  }

  ThreadPool& pool_;
  ModelPtr model_;
  Penalties penalties_;
  GenerationGraphs graphs_;
  StoredWeights stored_;
  std::vector<Plan> plans_;  // of decode_ and prompt_
  std::optional<Memory> memory_;
  std::optional<Executor> decode_, prompt_;
};

}  // namespace spillway::infer
