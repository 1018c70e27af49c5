#include "cli/run_messages.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/bytes.h"
#include "base/index.h"
#include "base/log.h"
#include "job/tiers.h"
#include "report/expert_loads.h"
#include "report/report_json.h"

namespace spillway {
namespace {

void say_what_experts_took(const RunMeasured& run) {
  const train::PlannedJob& planned = run.planned;
  const std::optional<ExpertLoads> loaded = expert_loads(planned.training.graph, planned.plan.program,
                                                         run.session.executor(), run.record.expert_loads_before());
  if (!loaded || loaded->loads == 0) return;
  const std::optional<int64_t> reached = run.record.experts_reached();
  log_info("{}experts loaded {} times, {}", reached ? fmt::format("tokens reached {} experts; ", *reached) : "",
           loaded->loads, format_bytes(loaded->bytes));
}

}  // namespace

void say_how_full(const train::TrainingLength& epoch, int64_t sequence_len) {
  const int64_t room = epoch.lines * sequence_len;
  log_info("packed into {} lines of {} tokens, {:.1f} % full", epoch.lines, sequence_len,
           100 * static_cast<double>(epoch.tokens) / static_cast<double>(room));
}

std::string evaluation_text(const train::EvaluationRecord& record) {
  std::string text;
  for (const train::Metric& metric : record.metrics) {
    text += text.empty() ? "" : ", ";
    text += metric.is_share ? fmt::format("eval_{} {:.1f} %", metric.key, 100 * metric.value)
                            : fmt::format("eval_{} {:.4f}", metric.key, metric.value);
  }
  return text;
}

void say_what_it_took(const RunMeasured& run, const train::TrainingOutcome& outcome) {
  const std::array<int64_t, kTiers> measured = run.session.measured_peak_bytes();
  for (int i = 0; i < kBudgetedTiers; ++i) {
    const auto tier = static_cast<Tier>(i);
    const int64_t planned = train::peak_bytes(run.planned, tier);
    if (planned == 0) continue;
    log_info("{} {} planned, {} measured", name_of(tier), format_bytes(planned), format_bytes(nth(measured, tier)));
  }
  log_info("{} outside the arenas; {:.0f} tokens/s; pictures in {}",
           format_bytes(outside_arenas_bytes(run.planned, run.machine, run.peak_rss)),
           static_cast<double>(outcome.tokens) / std::max(1e-9, outcome.step_seconds_sum),
           (run.output / "report.html").string());
  say_what_experts_took(run);
  if (const int64_t libraries = run.session.executor().device().library_bytes(); libraries > 0)
    log_info("{} of device memory in libraries", format_bytes(libraries));
}

void say_goodbye(const train::Trainer& trainer, const train::TrainingOutcome& outcome, std::string_view result_name,
                 const std::filesystem::path& output) {
  if (!outcome.ended_early.empty())
    log_info("ended after step {} of {}; {}", trainer.step(), trainer.length().total_steps, outcome.ended_early);
  if (outcome.interrupted) {
    log_info("interrupted after step {}; go on with auto_resume_from_checkpoints: true", trainer.step());
  } else {
    log_info("{} is in {}", result_name, output.string());
  }
}

}  // namespace spillway
