// The files and metadata of a run's base model and tokenizer that are saved with the trained weights.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "job/job.h"
#include "model/layout.h"

namespace spillway::train {

// Read when a run begins: by the time the weights are saved, the folders may have been removed, or a network disk may
// be gone.
struct BaseFiles {
  FileTexts beside_weights;  // config.json of a model, and the files of a tokenizer
  FileTexts pipeline;        // of a model in diffusers' layout
  // The dtype of each tensor of a model that is written whole, by name: that of the base's file, or what the config
  // says.
  std::map<std::string, DType, std::less<>> dtypes;
  // For a model that is written whole and is a part of a larger one: the files of the other parts, kept open since the
  // run began, and the tensors in them.
  std::optional<SafetensorsFolder> wrapper_parts;
  std::vector<TensorSpec> tensors_of_wrapper_parts;
  std::string license;  // lines for a model card
};

// Reads the files. `ends` are tokens that the run teaches the model to end answers with; generation_config.json lists
// them, too. Throws InputError for files that cannot be read.
[[nodiscard]] BaseFiles read_base_files(const Job& job, std::span<const int32_t> ends = {});

}  // namespace spillway::train
