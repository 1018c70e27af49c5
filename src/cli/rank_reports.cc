#include "cli/rank_reports.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "report/rank_timelines.h"

namespace spillway {
namespace {

constexpr const char* kTrace = "trace";

void add_up_loads(nlohmann::ordered_json& report, const nlohmann::ordered_json& of_ranks) {
  for (const char* key : {"loads", "load_bytes"}) {
    if (!report.contains("experts")) return;
    int64_t sum = 0;
    for (const nlohmann::ordered_json& own : of_ranks) sum += own["experts"][key].get<int64_t>();
    report["experts"][key] = sum;
  }
}

}  // namespace

void RankReports::take(train::Ranks& ranks, const train::PlannedJob& planned, const RunRecord& record,
                       const std::function<nlohmann::ordered_json()>& report) {
  const std::span<const std::string> texts = ranks.exchange([&] {
    const nlohmann::ordered_json whole = report();
    nlohmann::ordered_json own = {{"rank", ranks.rank()}, {"host", ranks.peers()->host(ranks.rank())}};
    for (const char* part : {"tiers", "process", "lanes", "experts"})
      if (whole.contains(part)) own[part] = whole.at(part);
    if (record.traced_step() != 0 && ranks.rank() < kMaxRankTimelines)
      own[kTrace] = rank_trace(planned.training.graph, planned.plan.program, record.trace(), ranks.size());
    return json_text(own);
  });
  if (!ranks.is_first()) return;
  std::vector<nlohmann::ordered_json> traces;
  for (const std::string& text : texts) {
    nlohmann::ordered_json& own = reports_.emplace_back(nlohmann::ordered_json::parse(text));
    if (own.contains(kTrace)) traces.push_back(std::move(own[kTrace]));
    own.erase(kTrace);
  }
  timelines_ = rank_timelines(traces);
  if (!timelines_.is_null()) timelines_["step"] = record.traced_step();
}

void RankReports::add_to(nlohmann::ordered_json& report, const train::PlannedJob& planned) const {
  report["world_size"] = reports_.size();
  report["zero_stage"] = planned.context.zero_stage;
  if (const int64_t copies = planned.context.copies; copies > 1)
    report["dp_shard_size"] = std::ssize(reports_) / copies;
  if (planned.context.sums_by_host) report["gradient_reduction"] = "by_host";
  report["ranks"] = reports_;
  report["rank_timelines"] = timelines_;
  add_up_loads(report, reports_);
}

}  // namespace spillway
