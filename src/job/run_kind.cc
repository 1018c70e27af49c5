#include "job/run_kind.h"

#include "job/clips/clip_job.h"
#include "job/online/online_job.h"
#include "job/rows/row_job.h"
#include "job/suggested_changes.h"

namespace spillway::train {
namespace {

constexpr int64_t kShortestSequence = 64;

}  // namespace

SuggestedChange RunKind::shorter_rows(const config::LoadedConfig& loaded, const Job&) const {
  const config::BatchSettings& batches = loaded.config.batches;
  const std::string& key = batches.length_key;
  std::vector<std::string> keys = {spelled_key(loaded, key)};
  if (key != "sequence_len" && loaded.spelled.contains("sequence_len"))
    keys.push_back(spelled_key(loaded, "sequence_len"));
  SuggestedChange suggestion{.trains = "on shorter rows"};
  for (int64_t length = batches.sequence_len / 2; length >= kShortestSequence; length /= 2) {
    Overrides& change = suggestion.grades.emplace_back();
    for (const std::string& each : keys) change.push_back({each, fmt::format("{}", length)});
  }
  return suggestion;
}

std::shared_ptr<RunKind> make_run_kind(const config::Config& config, const Model& model) {
  if (model.video()) return std::make_shared<ClipJob>();
  if (config.online) return std::make_shared<OnlineJob>();
  return std::make_shared<RowJob>();
}

std::shared_ptr<const RunKind> row_kind() { return std::make_shared<const RowJob>(); }

}  // namespace spillway::train
