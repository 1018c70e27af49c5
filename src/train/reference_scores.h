// precompute_ref_log_probs: what the reference says of every row, found once before the first step and kept in a file
// for later runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "io/safetensors.h"
#include "job/planned_job.h"
#include "job/training_data.h"
#include "train/session.h"

namespace spillway::train {

struct KnownScoresFile {
  std::filesystem::path path;
  bool was_there = false;
  // Of scoring, where it was not.
  int64_t tokens = 0;
  double seconds = 0;
};

// Fills the scores of `data` from their file or, where there is none that is whole, by the session's reference, whose
// weights are those of InitialState::reference(); then it writes the file: reference-HASH.safetensors in
// dataset_prepared_path, or in output_dir without that. HASH is that of all that the scores depend on: the weights of
// model and adapter, their form in memory, the rows, their lengths and (of objectives with further streams) their
// micro-batches. It holds a tensor f32 [rows] for each score and each set of rows, "training.ref_chosen_logps", and in
// its metadata the checksum of each, by the tensor's name (io/checksum.h).
// `progress` is told how many rows have their scores. REQUIRES: the job's scores are precomputed, and the session's
// weights are those at step 0. Throws MachineError where the file cannot be written.
[[nodiscard]] KnownScoresFile load_known_scores(const Job& job, const PlannedJob& planned,
                                                const SafetensorsFolder& reference, TrainingSession& session,
                                                TrainingData& data,
                                                const std::function<void(int64_t rows, int64_t of)>& progress);

}  // namespace spillway::train
