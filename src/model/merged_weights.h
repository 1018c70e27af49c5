// The weights of a model with an adapter merged, one at a time; `merge` writes them to a folder and `export` to a GGUF
// file.
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
  // Without an adapter, the weights are those of the folder. `read` is the model in the folder. Reads headers only.
  // Throws InputError if the adapter does not fit the base.
  MergedWeights(ModelPtr read, const std::filesystem::path& model, const std::optional<std::filesystem::path>& adapter,
                MergeBase base);

  // The model as the adapter changes it: it may have more tokens, its own head or a score.
  [[nodiscard]] const Model& model() const { return *model_; }
  // Every tensor, in the dtypes of the base's files, including those of other parts; quantised weights are decoded.
  [[nodiscard]] const std::vector<TensorSpec>& tensors() const { return tensors_; }
  // Returns null if there is none of that name.
  [[nodiscard]] const TensorSpec* find(std::string_view name) const;
  // Copies a tensor of another part of the model; returns false if the tensor must be read instead.
  bool copy(const TensorSpec& tensor, SafetensorsFolderWriter& writer) const;
  // Returns the elements of a tensor, in f32. REQUIRES: it does not belong to another part.
  [[nodiscard]] std::vector<float> read(const TensorSpec& tensor, ThreadPool& pool) const;

 private:
  std::optional<LoraOptions> lora_;
  ModelPtr model_;
  ParameterTable parameters_;
  SafetensorsFolder base_;
  std::optional<SafetensorsFolder> adapter_;
  std::vector<TensorSpec> tensors_;
};

// Writes all tensors, each in the dtype of its spec, one in memory at a time. REQUIRES: `writer` is for tensors().
void write_merged_weights(const MergedWeights& merged, SafetensorsFolderWriter& writer,
                          const MergeProgress& progress = {});

}  // namespace spillway
