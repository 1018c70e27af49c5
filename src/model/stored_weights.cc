#include "model/stored_weights.h"

#include <algorithm>

#include "base/math.h"

namespace spillway {
namespace {

bool is_as_wanted(const StoredTensor& tensor, const ValueType& type) {
  if (tensor.dtype() != type.dtype || static_cast<int>(tensor.shape.size()) != type.shape.rank()) return false;
  for (int axis = 0; axis < type.shape.rank(); ++axis) {
    if (tensor.shape[static_cast<size_t>(axis)] != type.shape[axis]) return false;
  }
  return true;
}

}  // namespace

std::vector<bool> StoredWeights::in_files(size_t values) const {
  std::vector<bool> result(values, false);
  for (const auto& [id, place] : places) result[static_cast<size_t>(id)] = true;
  return result;
}

StoredWeights find_stored_weights(const Graph& graph, const SafetensorsFolder& folder) {
  StoredWeights result;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
    const Value& value = graph.value(id);
    if (value.kind != ValueKind::kFrozenWeight || value.producer != kNone) continue;
    const auto found = folder.tensors().find(value.name);
    if (found == folder.tensors().end() || !is_as_wanted(*found->second.tensor, value.type)) continue;
    const auto& [tensor, file] = found->second;
    const auto known = std::find(result.files.begin(), result.files.end(), file->path());
    result.places[id] = {narrow<int32_t>(known - result.files.begin()), tensor->offset};
    if (known == result.files.end()) result.files.push_back(file->path());
  }
  return result;
}

}  // namespace spillway
