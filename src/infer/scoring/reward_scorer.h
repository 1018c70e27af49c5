// A reward model that runs without training, in its own memory.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "infer/inference_program.h"
#include "infer/scoring/reward_program.h"

namespace spillway::infer {

// Reads the weights in the first call of prepare(). Has capacity for texts of any length.
class RewardScorer final : public RewardProgram {
 public:
  // Reads the headers of the weights. Borrows pool and device. Throws InputError for weights that are missing or do not
  // fit the config.
  RewardScorer(std::shared_ptr<const RewardModel> model, ThreadPool& pool, Device& device);

  // Throws InputError for weights with NaN or infinity, MachineError where the device has too little memory.
  [[nodiscard]] RewardRoom prepare(int64_t longest, int64_t texts) override;
  [[nodiscard]] std::vector<std::vector<float>> run(std::span<const data::MicroBatch> batches) override;

 private:
  [[nodiscard]] InferenceModel open() const;

  std::shared_ptr<const RewardModel> model_;
  ThreadPool& pool_;
  Device& device_;
  RewardRoom room_;
  std::optional<InferenceProgram> program_;
};

}  // namespace spillway::infer
