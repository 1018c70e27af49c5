#include "report/trackers/trackio_run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "base/json.h"
#include "io/file.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;  // of trackio's records
constexpr std::chrono::seconds kBetweenFiles{2};
constexpr const char* kExtension = ".jsonl";

// Returns a number as trackio keeps it: JSON has no infinities, so that they are texts.
Json tracked_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::string utc_now() {
  const auto now = std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  const auto micros = now.time_since_epoch().count() % 1'000'000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}+00:00", fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     micros);
}

// Returns the path of a new file. Its name begins with its first step, by which remove_later() finds it.
fs::path new_file(const fs::path& inbox, int64_t first_step) {
  for (int number = 0;; ++number) {
    fs::path file = inbox / fmt::format("{:012}-{:03}{}", first_step, number, kExtension);
    if (!fs::exists(file)) return file;
  }
}

void remove_later(const fs::path& inbox, int64_t step) {
  for (const fs::directory_entry& entry : fs::directory_iterator(inbox)) {
    const int64_t first_step = std::strtoll(entry.path().filename().c_str(), nullptr, 10);
    if (entry.path().extension() == kExtension && first_step > step) fs::remove(entry.path());
  }
}

}  // namespace

TrackioRun::TrackioRun(fs::path folder, TrackioRunInfo info, ResumePoint resumed)
    : folder_(std::move(folder)), inbox_(folder_ / "inbox" / info.id), info_(std::move(info)) {
  create_folders(inbox_);
  remove_later(inbox_, resumed.step);
}

void TrackioRun::begin_step(int64_t step) {
  record_ = {{"v", kVersion},          {"kind", "metric"},          {"project", info_.project},
             {"run", info_.name},      {"run_id", info_.id},        {"step", step},
             {"timestamp", utc_now()}, {"metrics", Json::object()}, {"config", std::exchange(info_.config, nullptr)}};
  if (lines_.empty()) first_step_ = step;
}

void TrackioRun::add(std::string_view prefix, std::string_view key, double value) {
  record_["metrics"][fmt::format("{}/{}", prefix, key)] = tracked_number(value);
  // trackio keeps the first record of an id: a step that is taken again, with the same numbers, is there once.
  record_["log_id"] = fmt::format("{}-{}-{}", info_.id, record_["step"].get<int64_t>(), prefix);
}

void TrackioRun::end_step() {
  lines_ += json_text(record_) + "\n";
  if (Clock::now() - written_ >= kBetweenFiles) sync();
}

void TrackioRun::sync() {
  if (lines_.empty()) return;
  create_folders(inbox_);  // trackio removes a folder that it has emptied
  write_file(new_file(inbox_, first_step_), lines_);
  lines_.clear();
  written_ = Clock::now();
}

std::string TrackioRun::note() const {
  return fmt::format("trackio: run {} of project {} is in {}; `TRACKIO_DIR={} trackio show --project {}` shows it",
                     info_.name, info_.project, folder_.string(), folder_.string(), info_.project);
}

}  // namespace spillway
