// The weights of a model with an adapter merged, one at a time; `merge` writes them to a folder and `export` to a GGUF
// file.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/lora.h"
#include "model/merge.h"
#include "model/model.h"
#include "model/weights.h"

namespace spillway {

// The elements of a merged tensor, to be read from the first to the last. For use by one thread.
class MergedElements {
 public:
  // The most elements of a piece: a multiple of every encoding's blocks.
  static constexpr int64_t kPieceElems = int64_t{4} << 20;

  // Sets `piece` to the next elements, in f32: some of them where nothing is merged into the tensor, else all. Returns
  // false, with none, behind the last one.
  [[nodiscard]] bool next(std::vector<float>& piece);

 private:
  friend class MergedWeights;
  MergedElements(StoredWeight stored, int64_t elems, int64_t piece_elems)
      : stored_(std::move(stored)), left_(elems), piece_elems_(piece_elems) {}
  explicit MergedElements(std::vector<float> whole) : whole_(std::move(whole)) {}

  std::optional<StoredWeight> stored_;
  int64_t first_ = 0, left_ = 0, piece_elems_ = 0;  // of the elements of stored_
  std::vector<float> whole_;                        // without stored_
};

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
  // Returns a reader of the same elements, in pieces of at most so many. It borrows this.
  [[nodiscard]] MergedElements elements(const TensorSpec& tensor, ThreadPool& pool,
                                        int64_t piece_elems = MergedElements::kPieceElems) const;

 private:
  // Returns true if an adapter changes the weight.
  [[nodiscard]] bool is_changed(const Parameter& p) const;

  std::optional<LoraOptions> lora_;
  ModelPtr model_;
  ParameterTable parameters_;
  SafetensorsFolder base_;
  std::optional<SafetensorsFolder> adapter_;
  std::vector<TensorSpec> tensors_;
};

// Writes all tensors, each in the dtype of its spec; of one at a time a piece is in memory, or all. REQUIRES: `writer`
// is for tensors().
void write_merged_weights(const MergedWeights& merged, SafetensorsFolderWriter& writer,
                          const MergeProgress& progress = {});

}  // namespace spillway
