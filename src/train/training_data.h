// The rows of a job: its datasets, read, tokenised and split.
#pragma once

#include "model/config.h"
#include "train/config.h"
#include "train/trainer.h"

namespace spillway::train {

// Reads `datasets` (and `test_datasets`, or a share of them by `val_set_size`) with the model's tokenizer. Throws
// InputError naming file and line for what cannot be read, and where a token is not in the model's vocabulary.
[[nodiscard]] TrainingData load_training_data(const Config& config, const ModelConfig& model);

}  // namespace spillway::train
