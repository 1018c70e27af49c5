// The weights of model and adapter folders, checked against what the config says before anything relies on them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "model/lora.h"
#include "model/parameters.h"
#include "runtime/value_store.h"

namespace spillway {

// Opens FOLDER/model.safetensors, or its shards. Throws InputError for tensors that are missing, too many, of another
// shape than config.json says, or neither f32, f16 nor bf16. Reads headers only. A head beside tied embeddings is
// allowed, and so are the rotary frequencies that old Llama files keep.
[[nodiscard]] SafetensorsFolder open_model_weights(const std::filesystem::path& folder,
                                                   const ParameterTable& parameters);

// The same for FOLDER/adapter_model.safetensors, the factors of `lora` and what it trains in full. REQUIRES: the
// parameters are those of a model with `lora`.
[[nodiscard]] SafetensorsFolder open_adapter_weights(const std::filesystem::path& folder,
                                                     const ParameterTable& parameters, const LoraOptions& lora);

// Reads the elements of a stored weight, whose rows may be fewer than wanted: a row for a token that was added is the
// mean of the stored ones, as transformers starts it (but for noise of 1e-9 of their covariance).
class StoredWeight {
 public:
  // REQUIRES: the folder has `name`, and lives longer.
  StoredWeight(const SafetensorsFolder& folder, std::string_view name);
  // The source of a parameter; one that is coded is decoded as a whole, into memory.
  StoredWeight(const SafetensorsFolder& folder, const Parameter& parameter);
  // Elements [first, first + piece.elems()) in the piece's dtype.
  void read(const TensorView& piece, int64_t first);

 private:
  void compute_mean();

  const SafetensorsFolder& folder_;
  std::string name_;
  int64_t stored_elems_;
  std::vector<float> mean_;     // of the rows; empty until it is needed
  std::vector<float> decoded_;  // the elements of a coded weight
};

// Fills the base weights that are not trained from `folder`, converted to their dtypes and storages, and the constants;
// but for weights that load with their adapter.
// NaN and infinity are refused, also in weights that stay in the files, and so is a head that differs from the
// embedding which it is tied to.
void load_base_weights(const ParameterTable& parameters, const SafetensorsFolder& folder, ValueStore& store);

// Fills the LoRA factors, what is trained in full beside them, and copies of either, from an adapter's `folder`. NaN
// and infinity are refused.
void load_adapter_weights(const ParameterTable& parameters, const SafetensorsFolder& folder, ValueStore& store);

}  // namespace spillway
