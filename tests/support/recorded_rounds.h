// Online reinforcement learning on the completions that another library generated, beside what that logged.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/preference_run.h"
#include "train/online/round_source.h"

namespace spillway::testing {

// The rounds of a run of TRL's, as a case's expected.json has them.
class RecordedRounds final : public train::RoundSource {
 public:
  explicit RecordedRounds(nlohmann::ordered_json rounds);

  [[nodiscard]] const std::vector<std::string>& reward_names() const override { return names_; }
  [[nodiscard]] train::RoundAnswer make(const train::RoundRequest& request) override;

 private:
  nlohmann::ordered_json rounds_;
  std::vector<std::string> names_;
};

// Trains a case of a folder of goldens on its rounds, and checks the scores or advantages of completions, all that TRL
// logged of each step, and the weights of what the run has written. `on_round` may check more.
[[nodiscard]] PreferenceRun check_recorded_case(const std::filesystem::path& golden, const config::Config& config,
                                                const std::function<void(const train::RoundRecord&)>& on_round = {});

}  // namespace spillway::testing
