// precompute_ref_log_probs: the reference's scores of every row, computed once before the first step and kept in a file
// for later runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "io/safetensors.h"
#include "job/planned_job.h"
#include "job/training_data.h"
#include "train/ranks.h"
#include "train/session.h"

namespace spillway::train {

struct ReferenceScoresFile {
  std::filesystem::path path;
  bool was_there = false;
  // The cost of computing the scores, if the file was not there.
  int64_t tokens = 0;
  double seconds = 0;
};

// Fills the scores of `data` from their file. If there is no intact file, computes them with the session's reference,
// whose weights are those of InitialState::reference(), and writes the file: reference-HASH.safetensors in
// dataset_prepared_path, or in output_dir without that. HASH covers all that the scores depend on: the weights of model
// and adapter, their form in memory, the rows, their lengths and (for objectives with further streams) their
// micro-batches. The file holds a tensor f32 [rows] for each score and each set of rows ("training.ref_chosen_logps");
// its metadata holds the checksum of each, by the tensor's name (io/checksum.h). Calls `progress` with the number of
// rows that have their scores. Of several ranks each scores some of the rows, and rank 0 reads and writes the file.
// REQUIRES: the job's scores are precomputed, and the session's weights are those at step 0. Throws MachineError if the
// file cannot be written.
[[nodiscard]] ReferenceScoresFile load_reference_scores(const Job& job, const PlannedJob& planned,
                                                        const SafetensorsFolder& reference, TrainingSession& session,
                                                        TrainingData& data, Ranks& ranks,
                                                        const std::function<void(int64_t rows, int64_t of)>& progress);

}  // namespace spillway::train
