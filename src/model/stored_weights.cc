#include "model/stored_weights.h"

#include <algorithm>

#include "base/math.h"

namespace spillway {

std::vector<bool> StoredWeights::in_files(size_t values) const {
  std::vector<bool> result(values, false);
  for (const auto& [id, place] : places) result[static_cast<size_t>(id)] = true;
  return result;
}

StoredWeights find_stored_weights(const ParameterTable& parameters, const SafetensorsFolder& folder) {
  StoredWeights result;
  for (const Parameter& p : parameters) {
    if (p.trained || !p.is_of_model()) continue;
    const auto found = folder.tensors().find(p.source.name);
    if (found == folder.tensors().end()) continue;
    const auto& [tensor, file] = found->second;
    if (tensor->dtype() != p.dtype || tensor->shape != p.shape.dims()) continue;
    const auto known = std::find(result.files.begin(), result.files.end(), file->path());
    result.places[p.value] = {narrow<int32_t>(known - result.files.begin()), tensor->offset};
    if (known == result.files.end()) result.files.push_back(file->path());
  }
  return result;
}

}  // namespace spillway
