// The state of early stopping in a checkpoint, so that a resumed run ends where it would have ended.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace spillway::train {

// An evaluation after a step, with the value of the metric that decides.
struct JudgedEvaluation {
  int64_t step = 0;  // 0: none
  double value = 0;
  bool operator==(const JudgedEvaluation&) const = default;
};

// The state in a checkpoint, with which a resumed run ends where it would have ended.
struct StoppingState {
  std::string metric;            // that the numbers are of
  bool has_evaluations = false;  // one at least
  JudgedEvaluation best;         // of all; step 0 where none was better than the worst there can be
  JudgedEvaluation best_saved;   // of those after whose step a checkpoint was written
  int64_t without_better = 0;    // evaluations in a row
  int64_t high_losses = 0;       // steps in a row
  bool operator==(const StoppingState&) const = default;
};
// stopping_from_json() throws the exceptions of the JSON library.
[[nodiscard]] nlohmann::ordered_json to_json(const StoppingState& state);
[[nodiscard]] StoppingState stopping_from_json(const nlohmann::ordered_json& json);

}  // namespace spillway::train
