// Opens and loads the weights of model and adapter folders, and checks them against their configs first.
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

// Opens FOLDER/model.safetensors, or its shards. Throws InputError for tensors that are missing, superfluous, of
// another shape than config.json says, or neither f32, f16 nor bf16. Reads headers only. Allows a head beside tied
// embeddings, and the rotary frequencies in old Llama files.
[[nodiscard]] SafetensorsFolder open_model_weights(const std::filesystem::path& folder,
                                                   const ParameterTable& parameters);

// The same for FOLDER/adapter_model.safetensors, the factors of `lora` and the modules that it trains in full.
// REQUIRES: the parameters are those of a model with `lora`.
[[nodiscard]] SafetensorsFolder open_adapter_weights(const std::filesystem::path& folder,
                                                     const ParameterTable& parameters, const LoraOptions& lora);

// Reads the elements of a stored weight, which may have fewer rows than wanted: the row of an added token is the mean
// of the stored ones, as transformers initialises it (except for noise of 1e-9 of their covariance).
class StoredWeight {
 public:
  // Reads from element `begin` of a tensor on. REQUIRES: the folder has `name`, and outlives this object.
  StoredWeight(const SafetensorsFolder& folder, std::string_view name, int64_t begin = 0);
  // Reads the source of a parameter; a quantised one is decoded as a whole, into memory.
  StoredWeight(const SafetensorsFolder& folder, const Parameter& parameter);
  // Reads elements [first, first + piece.elems()) in the piece's dtype.
  void read(const TensorView& piece, int64_t first);

 private:
  void compute_mean();

  const SafetensorsFolder& folder_;
  std::string name_;
  int64_t begin_, stored_elems_;
  std::vector<float> mean_;     // of the rows; empty until it is needed
  std::vector<float> decoded_;  // the elements of a coded weight
};

// Throws InputError where the folder holds a tensor beside the one that it is tied to, with other values: a head that
// is not the embedding. Reads both.
void check_copies(const ParameterTable& parameters, const SafetensorsFolder& folder);

// Fills the base weights that are not trained from `folder`, converted to their dtypes and storages, and the constants,
// except for weights that load with their adapter. Refuses NaN and infinity, also in weights that stay in the files,
// and a head that differs from the embedding to which it is tied.
void load_base_weights(const ParameterTable& parameters, const SafetensorsFolder& folder, ValueStore& store);

// Fills the weights that adapters are merged into (Parameter::merges_adapter) as load_base_weights() does.
void load_merged_weights(const ParameterTable& parameters, const SafetensorsFolder& folder, ValueStore& store);

// Fills the LoRA factors, the modules that are trained in full beside them, and copies of either, from an adapter's
// `folder`. Refuses NaN and infinity.
void load_adapter_weights(const ParameterTable& parameters, const SafetensorsFolder& folder, ValueStore& store);

}  // namespace spillway
