// A job of tests/golden/preference_training or online_rl, trained as `train` trains it, without a process of its own.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "config/load.h"
#include "train/trainer.h"

namespace spillway::testing {

struct PreferenceRun {
  // Of each step: its metrics by name, with loss and grad_norm.
  std::vector<std::map<std::string, double>> steps;
  // Of each evaluation.
  std::vector<std::map<std::string, double>> evaluations;
  std::filesystem::path output;
  bool read_known_scores = false;  // of precompute_ref_log_probs: the file was there
};

// The names of the cases of a folder of goldens.
[[nodiscard]] std::vector<std::string> golden_cases(const std::filesystem::path& goldens);
// Returns a case's config, whose paths are those of its folder, with changes. A changed lora_dropout is that of the
// adapter that the case goes on from, too, since an adapter's own holds.
[[nodiscard]] config::Config golden_config(const std::filesystem::path& folder, const std::filesystem::path& output,
                                           const std::vector<config::ConfigOverride>& changes = {});

[[nodiscard]] std::filesystem::path preference_goldens();
// The names of its cases.
[[nodiscard]] std::vector<std::string> preference_cases();
// A case's config, whose paths are those of its folder, with changes.
[[nodiscard]] config::Config preference_config(const std::string& name, const std::filesystem::path& output,
                                               const std::vector<config::ConfigOverride>& changes = {});

// Returns the device memory that all programs of the job take, whether they fit or not.
[[nodiscard]] int64_t device_bytes_of(const config::Config& config);

// Trains into `output`. For a job that generates, `make_rounds` makes the source of its completions, and `on_round` is
// called for each round.
[[nodiscard]] PreferenceRun run_preference(const config::Config& config, train::MakeRounds make_rounds = {},
                                           std::function<void(const train::RoundRecord&)> on_round = {});

}  // namespace spillway::testing
