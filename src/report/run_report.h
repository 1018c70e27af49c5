// report.json: what was predicted, and what a run measured.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "train/session.h"
#include "train/trainer.h"

namespace spillway {

// Where the time of the compute lane went, by operation.
struct OperationTime {
  std::string_view name;
  int64_t calls = 0;
  double seconds = 0;
};
// Most time first.
[[nodiscard]] std::vector<OperationTime> time_by_operation(const Graph& graph, const Program& program,
                                                           const Executor& executor);

// The document that a run leaves beside its model.
[[nodiscard]] nlohmann::ordered_json run_report(const train::PlannedJob& planned, const train::TrainingSession& session,
                                                const train::TrainingOutcome& outcome);

}  // namespace spillway
