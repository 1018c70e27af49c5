// The messages of a run in its log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "job/planned_job.h"
#include "plan/machine.h"
#include "report/run_record.h"
#include "saved/training_length.h"
#include "train/session.h"
#include "train/trainer.h"

namespace spillway {

// Says how much of the lines of packed rows holds tokens.
void say_how_full(const train::TrainingLength& epoch, int64_t sequence_len);

// Returns "eval_loss 1.2345, eval_accuracies 60.0 %".
[[nodiscard]] std::string evaluation_text(const train::EvaluationRecord& record);

struct RunMeasured {
  const train::PlannedJob& planned;
  const Machine& machine;
  const train::TrainingSession& session;
  const RunRecord& record;
  int64_t peak_rss = 0;
  const std::filesystem::path& output;
};
// Says the planned and the measured memory of a run that has trained, and its speed.
void say_what_it_took(const RunMeasured& run, const train::TrainingOutcome& outcome);

// Says where the run has ended, and where its result is.
void say_goodbye(const train::Trainer& trainer, const train::TrainingOutcome& outcome, std::string_view result_name,
                 const std::filesystem::path& output);

}  // namespace spillway
