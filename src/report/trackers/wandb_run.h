// A run of wandb on the disk, as `wandb offline` leaves it and `wandb sync` sends it:
//
//   FOLDER/offline-run-20261129_165742-ID/run-ID.wandb    records of wandb_internal.proto (wandb_log.h)
//                                         files/          what is sent as it stands
//
// Rows of the history have transformers' names: train/loss, eval/loss, and train/global_step, over which all others are
// drawn.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/this_host.h"
#include "report/trackers/tracker.h"
#include "report/trackers/wandb_log.h"

namespace spillway {

struct WandbRunInfo {
  std::string id, project;                           // required
  std::string entity, name, group, job_type, notes;  // may be empty
  std::vector<std::string> tags = {};
  std::string started;            // base/local_time.h; part of the folder's name
  std::string host;               // may be empty
  nlohmann::ordered_json config;  // an object: the values of the run's settings
};

class WandbRun : public Tracker {
 public:
  // Begins a run below `folder`, or goes on with the one of this id and start. `clock` returns the seconds since 1970.
  // Throws as WandbLog does.
  WandbRun(const std::filesystem::path& folder, const WandbRunInfo& info, ResumePoint resumed,
           std::function<double()> clock = wall_seconds);

  void begin_step(int64_t step) override;
  void add(std::string_view prefix, std::string_view key, double value) override;
  void end_step() override;
  void sync() override { log_->sync(); }
  void finish(RunEnd end) override;
  [[nodiscard]] std::string note() const override;

 private:
  [[nodiscard]] bool keeps(std::string_view record, ResumePoint resumed);
  void begin(const WandbRunInfo& info);
  void write(int field, std::string_view content);
  [[nodiscard]] double runtime() const;

  std::function<double()> clock_;
  std::filesystem::path folder_;
  std::optional<WandbLog> log_;
  double began_ = 0, runtime_before_ = 0;  // seconds since 1970, and of the run before it went on
  int64_t step_ = 0, rows_ = 0;
  std::string record_, row_, item_;
};

}  // namespace spillway
