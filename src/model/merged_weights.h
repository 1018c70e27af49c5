// The weights of a model with an adapter folded into them, one at a time: what `merge` writes to a folder and `export`
// to a GGUF file.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/lora.h"
#include "model/merge.h"
#include "model/model.h"

namespace spillway {

class MergedWeights {
 public:
  // Of a folder as it is, where there is no adapter. `read` is the model in that folder. Reads headers only. Throws
  // InputError where the adapter does not fit the base.
  MergedWeights(ModelPtr read, const std::filesystem::path& model, const std::optional<std::filesystem::path>& adapter,
                MergeBase base);

  // As the adapter makes it: perhaps with more tokens, a head of its own or a score.
  [[nodiscard]] const Model& model() const { return *model_; }
  // Every tensor, in the dtypes of the base's files, with what these have besides; coded weights are decoded.
  [[nodiscard]] const std::vector<TensorSpec>& tensors() const { return tensors_; }
  // Null where there is none of that name.
  [[nodiscard]] const TensorSpec* find(std::string_view name) const;
  // Copies one that is of another part of the model; false for what is to be read.
  bool copy(const TensorSpec& tensor, SafetensorsFolderWriter& writer) const;
  // The elements of one of them, in f32. REQUIRES: it is of no other part.
  [[nodiscard]] std::vector<float> read(const TensorSpec& tensor, ThreadPool& pool) const;

 private:
  std::optional<LoraOptions> lora_;
  ModelPtr model_;
  ParameterTable parameters_;
  SafetensorsFolder base_;
  std::optional<SafetensorsFolder> adapter_;
  std::vector<TensorSpec> tensors_;
};

}  // namespace spillway
