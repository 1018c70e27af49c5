// The weights of model and adapter folders, checked against what the config says before anything relies on them.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "io/safetensors.h"
#include "model/config.h"
#include "model/lora.h"
#include "model/modules.h"
#include "runtime/value_store.h"

namespace spillway {

// Opens FOLDER/model.safetensors, or its shards. Throws InputError for tensors that are missing, too many, of another
// shape than config.json says, or neither f32, f16 nor bf16. Reads headers only. A head beside tied embeddings is
// allowed, and so are the rotary frequencies that old Llama files keep.
[[nodiscard]] SafetensorsFolder open_model_weights(const std::filesystem::path& folder, const ModelConfig& config);

// The same for FOLDER/adapter_model.safetensors, the layers that `lora` adapts and those that it trains in full.
[[nodiscard]] SafetensorsFolder open_adapter_weights(const std::filesystem::path& folder, const ModelConfig& config,
                                                     const LoraOptions& lora);

// The name under which a model's files have a weight: its own, or the embedding's for a head that starts as a copy.
[[nodiscard]] std::string_view stored_name(const ModelConfig& config, std::string_view weight);

// Reads a stored weight, whose rows may be fewer than wanted: a row for a token that was added is the mean of the
// stored ones, as transformers starts it (but for noise of 1e-9 of their covariance).
class StoredWeight {
 public:
  // REQUIRES: the folder has `name`, and lives longer.
  StoredWeight(const SafetensorsFolder& folder, std::string_view name);
  // Elements [first, first + piece.elems()) in the piece's dtype.
  void read(const TensorView& piece, int64_t first);

 private:
  void compute_mean();

  const SafetensorsFolder& folder_;
  std::string name_;
  int64_t stored_elems_;
  std::vector<float> mean_;  // of the rows; empty until it is needed
};

// Fills the base weights of `graph` from `folder`, converted to their dtypes, and its rotary frequencies from the
// config. NaN and infinity are refused, also in weights that stay in the files, and so is a head that differs from the
// embedding which it is tied to.
void load_base_weights(const Graph& graph, const ModelConfig& config, const SafetensorsFolder& folder,
                       ValueStore& store);

// Fills the LoRA factors of `graph`, and what is trained in full beside them, from `folder`. NaN and infinity are
// refused.
void load_adapter_weights(const Graph& graph, const SafetensorsFolder& folder, ValueStore& store);

}  // namespace spillway
