// A reward model without training, in memory of its own.
#pragma once

#include <memory>
#include <optional>

#include "infer/inference_program.h"
#include "infer/scoring/reward_program.h"

namespace spillway::infer {

// Reads the weights when it is first prepared; it has room for any text then.
class RewardScorer final : public RewardProgram {
 public:
  // Reads the headers of the weights. Pool and device are borrowed. Throws InputError for weights that are missing or
  // do not fit the config.
  RewardScorer(std::shared_ptr<const RewardModel> model, ThreadPool& pool, Device& device);

  // Throws InputError for weights with NaN or infinity, MachineError where the device has too little memory.
  [[nodiscard]] RewardRoom prepare(int64_t longest, int64_t texts) override;
  [[nodiscard]] std::span<const float> run(const data::MicroBatch& texts) override;

 private:
  [[nodiscard]] InferenceModel open() const;

  std::shared_ptr<const RewardModel> model_;
  ThreadPool& pool_;
  Device& device_;
  RewardRoom room_;
  std::optional<InferenceProgram> program_;
};

}  // namespace spillway::infer
