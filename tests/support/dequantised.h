// The weights of a quantised folder as products decode them.
#pragma once

#include <vector>

#include "model/quantised/quantised_tensors.h"
#include "model/storages/quantised_files.h"
#include "model/weights.h"

namespace spillway::testing {

// In f32, rounded to quant_state's dtype where there is one.
inline std::vector<float> dequantised(const SafetensorsFolder& folder, const QuantisedTensor& tensor) {
  const StoragePtr storage = stored_linear_storage(folder).storage;
  const Parameter parameter{
      .name = tensor.name, .shape = tensor.shape, .storage = storage, .source = {tensor.name, tensor.shape, storage}};
  std::vector<float> values(static_cast<size_t>(tensor.shape.elems()));
  StoredWeight(folder, parameter).read({values.data(), DType::kF32, tensor.shape}, 0);
  return values;
}

}  // namespace spillway::testing
