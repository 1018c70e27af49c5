// What saved weights take over from the folders of a run's base model and tokenizer.
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

// Read when a run begins: long before its weights are saved, somebody may have removed the folders, or a network disk
// is gone.
struct BaseFiles {
  FileTexts beside_weights;  // config.json of a model, and the files of a tokenizer
  FileTexts pipeline;        // of a model in diffusers' layout
  // That the tensors of a model that is written whole get, by their names: their own, or what the config says.
  std::map<std::string, DType, std::less<>> dtypes;
  // Of a model that is written whole beside other parts, what holds these, and what they are: open since the run began.
  std::optional<SafetensorsFolder> other_parts;
  std::vector<TensorSpec> tensors_of_other_parts;
  std::string license;  // lines for a model card
};

// `ends` are tokens that the run teaches the model to end answers with: generation_config.json lists them, too. Throws
// InputError for files that cannot be read.
[[nodiscard]] BaseFiles read_base_files(const Job& job, std::span<const int32_t> ends = {});

}  // namespace spillway::train
