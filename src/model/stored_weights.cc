#include "model/stored_weights.h"

#include <algorithm>

#include "base/index.h"
#include "base/math.h"

namespace spillway {

std::vector<bool> StoredWeights::held(size_t values) const {
  std::vector<bool> result(values, false);
  for (const auto& [id, place] : places) nth(result, id) = true;
  return result;
}

void add_stored_weights(const ParameterTable& parameters, const SafetensorsFolder& folder, StoredWeights& result) {
  const auto find = [&](const Parameter& p, const std::string& name, const StoragePart& part, ValueId value) {
    const auto found = folder.tensors().find(name);
    if (found == folder.tensors().end()) return;
    const auto& [tensor, file] = found->second;
    std::vector<int64_t> shape = part.shape.dims();
    if (p.is_slab()) shape.insert(shape.begin(), p.source.shape[0]);
    const int64_t bytes = part.shape.elems() * size_of(part.dtype);
    if (part.dtype == DType::kU8) {  // bytes, whatever the header calls them
      if (tensor->bytes != (p.is_slab() ? p.source.shape[0] : 1) * bytes) return;
    } else if (tensor->dtype() != part.dtype || tensor->shape != shape) {
      return;
    }
    const auto known = std::find(result.files.begin(), result.files.end(), file->path());
    result.places[value] = {narrow<int32_t>(known - result.files.begin()), tensor->offset + p.first_elem(bytes)};
    if (known == result.files.end()) result.files.push_back(file->path());
  };
  for (const Parameter& p : parameters) {
    if (p.trained || !p.is_of_model() || !p.is_stored_as_used()) continue;
    const std::vector<ParameterTensor> tensors = p.tensors();
    const std::vector<StoragePart> parts = p.storage->parts(p.spec());
    // A storage may name fewer tensors of a weight that the files lack.
    for (size_t i = 0; i < std::min(parts.size(), tensors.size()); ++i) find(p, tensors[i].name, parts[i], p.values[i]);
  }
}

}  // namespace spillway
