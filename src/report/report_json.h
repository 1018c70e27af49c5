// report.json: the predictions of a plan and the measurements of a run. report.html shows the same document
// (report_html.h).
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

// Returns the memory of the process outside of the arenas: libraries, buffers, the program itself.
[[nodiscard]] int64_t outside_arenas_bytes(const train::PlannedJob& planned, const Machine& machine, int64_t peak_rss);

// Returns the report before a run: all measurements are null. A plan that does not fit has a `shortage`.
[[nodiscard]] nlohmann::ordered_json plan_report(const train::PlannedJob& planned, const Machine& machine);

// Facts of a run in addition to those of its trainer.
struct RunFacts {
  std::string_view state = "done";  // or "running", "interrupted", "failed"
  std::string started;              // as spillway_run.json has it
  int64_t step = 0, total_steps = 0;
  std::optional<double> cpu_share;  // that computing threads had of the CPUs; none: they run elsewhere
  std::string config;               // the text of the config
  std::vector<std::pair<std::string, std::string>> overrides;  // what the command line changed of it
};

// Returns the report of a run at its end or so far. `peak_rss` is that of the process, until the end of training.
[[nodiscard]] nlohmann::ordered_json run_report(const train::PlannedJob& planned, const Machine& machine,
                                                const Executor& executor, const train::TrainingOutcome& outcome,
                                                const RunRecord& record, int64_t peak_rss, const RunFacts& facts = {});

// Returns the report as indented text, with long lists of numbers on one line each.
[[nodiscard]] std::string print_report(const nlohmann::ordered_json& report);

}  // namespace spillway
