// A run for trackio's dashboard. trackio imports each file of its inbox into its database, then removes it:
//
//   FOLDER/inbox/WRITER/NAME.jsonl    a JSON object for each step: project, run, step, metrics and more
//
// Names of metrics are those that transformers gives trackio: "train/loss", "eval/loss".
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "report/trackers/tracker.h"

namespace spillway {

struct TrackioRunInfo {
  std::string id;                 // required, a file name
  std::string project, name;      // required
  nlohmann::ordered_json config;  // an object: the values of the run's settings
};

class TrackioRun : public Tracker {
 public:
  // Begins a run in the inbox of the folder, or goes on with the one of this id. Files of later steps are removed where
  // trackio has not imported them; what it has imported stays. Throws MachineError if the inbox cannot be written.
  TrackioRun(std::filesystem::path folder, TrackioRunInfo info, ResumePoint resumed);

  void begin_step(int64_t step) override;
  void add(std::string_view prefix, std::string_view key, double value) override;
  // Writes a file if the last one is old enough for a dashboard to want another.
  void end_step() override;
  void sync() override;
  void finish(RunEnd /*end*/) override { sync(); }
  [[nodiscard]] std::string note() const override;

 private:
  using Clock = std::chrono::steady_clock;

  std::filesystem::path folder_, inbox_;
  TrackioRunInfo info_;
  nlohmann::ordered_json record_;  // of the step that has begun
  std::string lines_;              // that no file has yet
  int64_t first_step_ = 0;         // of lines_
  Clock::time_point written_ = Clock::now();
};

}  // namespace spillway
