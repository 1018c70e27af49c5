// precompute_ref_log_probs: what the reference says of every row, found once before the first step and kept in a file
// for later runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "train/base_identity.h"
#include "train/job.h"
#include "train/run_settings.h"
#include "train/session.h"
#include "train/training_data.h"

namespace spillway::train {

// The file: reference-HASH.safetensors in dataset_prepared_path, or in output_dir without that. HASH is that of all
// that the scores depend on: the weights of model and adapter, their form in memory, the rows and their lengths. It
// holds a tensor f32 [rows] for each score and each set of rows, "training.ref_chosen_logps".
[[nodiscard]] std::filesystem::path known_scores_file(const Job& job, const TrainingData& data,
                                                      const BaseIdentity& base);

// Fills the scores of `data`, from that file or, where there is none that is whole, by the session's reference; then it
// writes the file. Returns whether it was there. REQUIRES: the job's scores are precomputed, and the session's weights
// are those at step 0. Throws MachineError where the file cannot be written. `progress` is told how many rows have
// their scores.
bool load_known_scores(const Job& job, const PlannedJob& planned, const BaseIdentity& base, TrainingSession& session,
                       TrainingData& data, const std::function<void(int64_t rows, int64_t of)>& progress);

}  // namespace spillway::train
