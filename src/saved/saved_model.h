// What a run leaves: folders that transformers, PEFT and diffusers read.
#pragma once

#include <filesystem>

#include "job/job.h"
#include "runtime/value_store.h"
#include "saved/base_files.h"
#include "saved/model_card.h"
#include "saved/state.h"

namespace spillway::train {

// What a run trains and what is written beside it. Borrowed.
struct ModelInTraining {
  const Job& job;
  const BaseFiles& base;
  const TrainingGraph& training;
  ValueStore& store;
};

// Of the model; the value model is part of checkpoints alone.
//
// Writes adapter_model.safetensors and adapter_config.json (f32), or the whole model in the dtypes of the base's files,
// with the tokenizer's files and a model card, into a folder that exists. A README.md that no card is stays. What an
// earlier run has left there is removed first (saved/output.h), when all weights are written under other names, and
// what makes others take the folder for a model comes last: whenever the process is killed, the folder holds the
// earlier result, this one, or none that can be taken for a whole one. Returns
// the sums of the weights. Opens nothing of the base's folder. REQUIRES: the weights in training are in place
// (saved/evaluated_weights.h).
TensorSums save_model(const std::filesystem::path& folder, const ModelInTraining& model,
                      const TrainedFacts& facts = {});

// What the weights of that take, without the headers of files.
[[nodiscard]] int64_t saved_bytes(const Job& job, const BaseFiles& base, const TrainingGraph& training);

}  // namespace spillway::train
