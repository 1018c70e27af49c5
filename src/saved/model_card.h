// The README.md of a trained model or adapter, as the Hugging Face hub reads one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/job.h"
#include "objectives/metrics.h"
#include "saved/run_settings.h"
#include "saved/stopping_state.h"

namespace spillway::train {

// The results of a run.
struct TrainedFacts {
  int64_t steps = 0, total_steps = 0;  // done, and those that were planned
  double epochs = 0;
  int64_t tokens = 0;                // seen, without padding
  std::string_view unit = "tokens";  // of which those are
  bool is_merged = false;            // an adapter, into its base: the result is a model
  std::optional<double> loss;        // of the last step
  int64_t evaluation_step = 0;
  std::vector<KeptMetric> evaluation;  // the last; empty: there was none
  std::string metric;                  // that tells the best evaluation
  JudgedEvaluation best;
  int64_t loaded_step = 0;  // of the checkpoint whose weights these are; 0: those of the last step
  RunSettings settings;
  struct TierPeak {
    std::string name;
    int64_t planned_bytes = 0;
    std::optional<int64_t> measured_bytes;  // none: nothing was trained since the run went on
  };
  std::vector<TierPeak> tiers;
};

// Returns the license lines of the base model's card; empty if it has none.
[[nodiscard]] std::string license_lines(const std::filesystem::path& base);

// Returns the card: YAML front matter with the license lines, then Markdown.
[[nodiscard]] std::string model_card(const Job& job, const TrainedFacts& facts, const std::string& license);

// Writes the card. Does not overwrite a file that is not such a card.
void write_model_card(const std::filesystem::path& file, const Job& job, const TrainedFacts& facts,
                      const std::string& license);

}  // namespace spillway::train
