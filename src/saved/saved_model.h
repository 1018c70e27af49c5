// Writes the results of a run: folders that transformers, PEFT and diffusers can read.
#pragma once

#include <filesystem>

#include "job/job.h"
#include "runtime/value_store.h"
#include "saved/base_files.h"
#include "saved/model_card.h"
#include "saved/state.h"

namespace spillway::train {

// The inputs of saving a model in training. Borrowed.
struct ModelInTraining {
  const Job& job;
  const BaseFiles& base;
  const TrainingGraph& training;
  ValueStore& store;
  std::filesystem::path merged_base = {};  // the folder of an adapter's base, where that is no longer base_model

  [[nodiscard]] std::filesystem::path base_folder() const {
    return merged_base.empty() ? std::filesystem::path(job.config.model.base_model) : merged_base;
  }
};

// Saves the model; a value model is only saved in checkpoints.
//
// Writes adapter_model.safetensors and adapter_config.json (f32), or the whole model in the dtypes of the base's files,
// with the tokenizer's files and a model card, into an existing folder. Keeps a README.md that is not such a card.
// Writes all weights under temporary names first, then removes the result of an earlier run (saved/output.h), and adds
// the files by which others recognise a model last: if the process is killed at any time, the folder holds the earlier
// result, this one, or none that could be mistaken for a complete one. Returns the sums of the weights. Opens no file
// of the base's folder. REQUIRES: the weights in training are in place (saved/evaluated_weights.h).
TensorSums save_model(const std::filesystem::path& folder, const ModelInTraining& model,
                      const TrainedFacts& facts = {});

// Writes the model that an adapter makes of its base, in the dtypes of the base's files, likewise; without a card.
// REQUIRES: an adapter that restarts.
TensorSums save_merged_model(const std::filesystem::path& folder, const ModelInTraining& model);

// Saves what the run is for: as save_model(), but of an adapter that restarts the merged model.
TensorSums save_result(const std::filesystem::path& folder, const ModelInTraining& model, const TrainedFacts& facts);

// Returns the size of the saved weights, without the headers of files.
[[nodiscard]] int64_t saved_bytes(const Job& job, const BaseFiles& base, const TrainingGraph& training);
// Returns the size of the weights of save_result() likewise.
[[nodiscard]] int64_t result_bytes(const Job& job, const BaseFiles& base, const TrainingGraph& training);

}  // namespace spillway::train
