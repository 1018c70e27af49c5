// The files that a run appends to while it trains: metrics.jsonl, completions.jsonl, samples.jsonl and those
// of trackers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"
#include "io/step_lines.h"
#include "job/planned_job.h"
#include "report/metrics.h"
#include "report/trackers/tracker.h"
#include "saved/run_identity.h"
#include "train/clips/sample_lines.h"
#include "train/trainer.h"

namespace spillway {

// Returns true if nothing is left to train, and the report in `output` is that of this run, up to its last step.
[[nodiscard]] bool is_reported(const std::filesystem::path& output, const train::RunIdentity& identity,
                               const train::Trainer& trainer);

class RunFiles {
 public:
  // Writes nothing before open(). Borrows its arguments. `prints_metrics`: the lines of metrics.jsonl go to standard
  // output, too, whether that file is written or not, behind one with the run's folder and steps. Printing ends when
  // nobody reads any more.
  RunFiles(const train::Job& job, const train::PlannedJob& planned, train::TrainingSession& session,
           bool prints_metrics)
      : job_(job), planned_(planned), session_(session), prints_metrics_(prints_metrics) {}

  // Opens the files that the config asks for in the run's folder. They continue at the trainer's step. Throws as
  // StepLines.
  void open(const std::filesystem::path& output, const train::RunIdentity& identity, const train::Trainer& trainer,
            const config::LoadedConfig& config);

  // Write a record. If a file cannot be written, a warning says so once, and the run continues without that file, since
  // training is worth more than its records. failure() returns the warning at the end of the run.
  void write(const train::StepRecord& record);
  void write(const train::EvaluationRecord& record);
  void write_completions(std::string_view lines);
  [[nodiscard]] bool has_completions() const { return completions_ != nullptr; }
  void write(const train::SampleSeen& sample);
  // Flushes all lines to the disk.
  void sync();
  // Does the same, and tells the trackers how the run ended.
  void finish(RunEnd end);
  // Returns the warning about the first file that is incomplete; empty if all are complete.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  // Calls write(file) if there is a file. If that fails, logs a warning and closes the file.
  template <typename File, typename Write>
  void write_or_close(std::unique_ptr<File>& file, const Write& write);
  [[nodiscard]] bool has_metrics() const { return metrics_ != nullptr || prints_metrics_; }
  // Adds the memory use to a line, writes and prints it.
  void write_metrics(std::vector<MetricField> line);
  void print(std::string_view line);
  void add_memory(std::vector<MetricField>& line);

  const train::Job& job_;
  const train::PlannedJob& planned_;
  train::TrainingSession& session_;
  bool prints_metrics_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<StepLines> completions_, samples_;
  std::vector<std::unique_ptr<Tracker>> trackers_;
  std::string failure_;
};

}  // namespace spillway
