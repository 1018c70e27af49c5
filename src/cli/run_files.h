// What a run writes line by line while it goes on: metrics.jsonl, completions.jsonl, samples.jsonl and event files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/step_lines.h"
#include "job/planned_job.h"
#include "report/event_file.h"
#include "report/metrics.h"
#include "saved/run_identity.h"
#include "train/clips/sample_lines.h"
#include "train/trainer.h"

namespace spillway {

class RunFiles {
 public:
  // Nothing is written before open(). All is borrowed.
  RunFiles(const train::Job& job, const train::PlannedJob& planned, train::TrainingSession& session)
      : job_(job), planned_(planned), session_(session) {}

  // Those that the config wants, in the run's folder; they go on where the trainer does. Throws as StepLines.
  void open(const std::filesystem::path& output, const train::RunIdentity& identity, const train::Trainer& trainer);

  // Write a record. Training is worth more than its records: if a file cannot be written, a warning says so, once, and
  // the run goes on and writes nothing more to it. At its end failure() has that, too.
  void write(const train::StepRecord& record);
  void write(const train::EvaluationRecord& record);
  void write_completions(std::string_view lines);
  [[nodiscard]] bool has_completions() const { return completions_ != nullptr; }
  void write(const train::SampleSeen& sample);
  // Brings all lines to the disk.
  void sync();
  // Returns what was said of the file that is not whole, of the first where there are several; empty where all are.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  // Calls write(file) where there is a file. Where that fails, a warning says so, and the file is written no more.
  template <typename File, typename Write>
  void write_or_close(std::unique_ptr<File>& file, const Write& write);
  void add_memory(std::vector<MetricField>& line);

  const train::Job& job_;
  const train::PlannedJob& planned_;
  train::TrainingSession& session_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<StepLines> completions_, samples_;
  std::unique_ptr<EventFile> events_;
  std::string failure_;
};

}  // namespace spillway
