// report.json: what was predicted, and what a run measured. report.html shows the same document (report_html.h).
//
// docs/report.md describes the fields.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/run_record.h"
#include "train/session.h"
#include "train/trainer.h"

namespace spillway {

// Where the time of the computing lanes went, by operation.
struct OperationTime {
  std::string_view name;
  int64_t calls = 0;
  double seconds = 0;
};
// Most time first.
[[nodiscard]] std::vector<OperationTime> time_by_operation(const Graph& graph, const Program& program,
                                                           const Executor& executor);

// What the process takes beside the arenas that are memory: libraries, buffers, the program itself.
[[nodiscard]] int64_t outside_arenas_bytes(const train::PlannedJob& planned, const Machine& machine, int64_t peak_rss);

// What is known before a run: whatever a run measures is null. A plan that does not fit has a `shortage`.
[[nodiscard]] nlohmann::ordered_json plan_report(const train::PlannedJob& planned, const Machine& machine);

// What is known of a run beside what its trainer counts.
struct RunFacts {
  std::string_view state = "done";  // or "running", "interrupted", "failed"
  std::string started;              // as spillway_run.json has it
  int64_t step = 0, total_steps = 0;
  std::optional<double> cpu_share;  // that computing threads had of the CPUs; none: they run elsewhere
  std::string config;               // the text of the config
  std::vector<std::pair<std::string, std::string>> overrides;  // what the command line changed of it
};

// What a run leaves beside its model, or has to show so far. `peak_rss`: of the process, until the end of training.
[[nodiscard]] nlohmann::ordered_json run_report(const train::PlannedJob& planned, const Machine& machine,
                                                const Executor& executor, const train::TrainingOutcome& outcome,
                                                const RunRecord& record, int64_t peak_rss, const RunFacts& facts = {});

// As text: indented, but the long lists of numbers each on one line.
[[nodiscard]] std::string print_report(const nlohmann::ordered_json& report);

}  // namespace spillway
