// Runs over rows of text, in memory or streamed: supervised fine-tuning, pretraining, distillation, preferences, reward
// models.
#pragma once

#include "job/run_kind.h"

namespace spillway::train {

class RowJob final : public RunKind {
 public:
  void take_model(Job& job) const override;
  [[nodiscard]] RowShape read(const RunKind* before, Job& job) override;
  void take_objective(Job& job) const override;
  void check_files(const Job& job) const override;
  [[nodiscard]] TrainingData load(const Job& job, const std::optional<std::tm>& now,
                                  const std::function<void(int64_t records)>& progress) const override;
  [[nodiscard]] std::string method(const Job& job) const override;
  [[nodiscard]] CardWords card(const Job& job) const override;
  void add_settings(const Job& job, RunSettings& settings) const override;
};

// Adds the settings of batches of text.
void add_lines(const config::Config& config, RunSettings& settings);

}  // namespace spillway::train
