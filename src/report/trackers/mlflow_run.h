// A run in MLflow's file store (https://mlflow.org/docs/latest/self-hosting/architecture/backend-store):
//
//   STORE/EXPERIMENT/meta.yaml                      the experiment's name
//   STORE/EXPERIMENT/RUN/meta.yaml                  its name, beginning, end and status
//                        params/NAME, tags/NAME     a value each
//                        metrics/NAME               a line a value: milliseconds since 1970, value, step
//
// Names of metrics are those of transformers' Trainer: "loss", "eval_loss".
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "report/trackers/append_file.h"
#include "report/trackers/tracker.h"

namespace spillway {

struct MlflowRunInfo {
  std::string id;                 // 32 hexadecimal digits
  std::string experiment, name;   // required
  nlohmann::ordered_json params;  // an object: the values of the run's settings
};

class MlflowRun : public Tracker {
 public:
  // Begins a run in the store, or goes on with the one of this id. An experiment of that name is used, or created.
  // Throws MachineError if a file cannot be written, InputError if one is in the way.
  MlflowRun(const std::filesystem::path& store, const MlflowRunInfo& info, ResumePoint resumed);

  void begin_step(int64_t step) override { step_ = step; }
  void add(std::string_view prefix, std::string_view key, double value) override;
  void end_step() override {}
  void sync() override;
  void finish(RunEnd end) override;
  [[nodiscard]] std::string note() const override;

 private:
  void write_meta(int status, int64_t ended_ms) const;
  void take_back(ResumePoint resumed) const;

  std::filesystem::path store_, folder_;
  MlflowRunInfo info_;
  std::string experiment_id_;
  int64_t started_ms_ = 0, step_ = 0;
  std::map<std::string, AppendFile, std::less<>> metrics_;  // by their names
};

}  // namespace spillway
