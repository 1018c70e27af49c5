// Generation without training: a model folder, perhaps with an adapter, in memory of its own.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "backend/device.h"
#include "base/parallel.h"
#include "model/config.h"
#include "plan/planner.h"
#include "runtime/executor.h"
#include "train/generation/generate.h"

namespace spillway::train {

class Generator {
 public:
  // Plans for sequences of `sizes` and reads the weights; `adapter` is a PEFT folder or empty. Weights and caches all
  // live on `device`, which is borrowed as the pool is. Throws InputError for folders that do not fit together,
  // MachineError where the device has too little memory.
  Generator(const std::filesystem::path& model, const std::filesystem::path& adapter, const GenerationSizes& sizes,
            ThreadPool& pool, Device& device = cpu_device());

  // With the model's repetition penalty. REQUIRES: as the free function of that name.
  [[nodiscard]] std::vector<Generated> generate(std::span<const Prompt> prompts, GenerationOptions options = {});
  [[nodiscard]] const ModelConfig& config() const { return config_; }

 private:
  ThreadPool& pool_;
  ModelConfig config_;
  GenerationGraphs graphs_;
  Plan decode_plan_, prompt_plan_;
  std::optional<Memory> memory_;
  std::optional<Executor> decode_, prompt_;
};

}  // namespace spillway::train
