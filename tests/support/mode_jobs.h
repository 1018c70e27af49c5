// Every mode that a config can name, alone, in pairs and with the planner choosing the rest, held against the plain run
// on the same device: losses and weights must be equal to the last bit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "job/tiers.h"
#include "tests/support/tiny_outcome.h"

namespace spillway::testing {

inline const char* const kPlainJob = "memory: {plan: fixed}\n";

// Tiny jobs set up by the lines of a config, on a machine with every tier. A training takes two steps of two
// micro-batches, or of another number of them, or of one where its setup does not accumulate.
class ModeJobs {
 public:
  static constexpr int64_t kSteps = 2;

  explicit ModeJobs(TinySetup setup, std::string model = "qwen3", size_t accumulation = 2)
      : setup_(std::move(setup)), model_(std::move(model)), accumulation_(setup_.accumulates ? accumulation : 1) {}

  [[nodiscard]] train::Job job(const std::string& lines) const;
  // `tiers` must outlive the training.
  [[nodiscard]] TinyTraining training(const std::string& lines, std::optional<train::JobTiers>& tiers) const;
  [[nodiscard]] TinyOutcome outcome(const std::string& lines) const;

  [[nodiscard]] const TinySetup& setup() const { return setup_; }
  [[nodiscard]] Machine machine() const;
  [[nodiscard]] size_t accumulation() const { return accumulation_; }

 private:
  TinySetup setup_;
  std::string model_;  // a golden one
  size_t accumulation_;
  TemporaryFolder folder_;
};

// Full fine-tuning in bf16, with a row of the embedding that gets no gradient, and in f32, and DoRA and LoRA with
// dropout, with and without accumulation; DoRA with noise on embeddings, too.
std::vector<TinySetup> mode_setups();

// Each with and without the planner choosing the rest.
void check_modes(const ModeJobs& jobs);
// Each in groups of two and of three micro-batches of a step of three, held against one after another; by day each mode
// in one of them.
void check_modes_in_groups(TinySetup setup, const std::string& model = "qwen3");
void check_pairs_of_modes(const ModeJobs& jobs);
// The least device memory, the most, and between; with and without host and disk.
void check_budgets(const ModeJobs& jobs);

}  // namespace spillway::testing
