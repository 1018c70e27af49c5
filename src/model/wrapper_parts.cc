#include "model/wrapper_parts.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "base/log.h"
#include "base/sizes.h"
#include "model/storages/fp8.h"

namespace spillway {

std::vector<TensorSpec> tensors_of_wrapper_parts(const SafetensorsFolder& folder, const ParameterTable& parameters) {
  std::vector<TensorSpec> result;
  for (const auto& [name, entry] : folder.tensors())
    if (parameters.is_of_other_part(name) && !is_of_fp8(folder, name)) result.push_back(spec_of_copy(*entry.tensor));
  return result;
}

void warn_of_parts_left_out(const SafetensorsFolder& folder, const ParameterTable& parameters) {
  const auto& tensors = folder.tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& tensor) {
    return parameters.is_of_other_part(tensor.first) && is_of_fp8(folder, tensor.first);
  });
  if (found != tensors.end())
    log_warning("{}: weights in FP8 that are not the text model's, such as {}, are not written", folder.path().string(),
                found->first);
}

TensorSpec spec_of_copy(const StoredTensor& tensor) {
  if (const std::optional<DType> dtype = tensor.dtype()) return {tensor.name, *dtype, tensor.shape};
  return {.name = tensor.name,
          .dtype = DType::kU8,
          .shape = tensor.shape,
          .foreign_dtype = tensor.dtype_name,
          .foreign_bytes = tensor.bytes};
}

void copy_tensor(const SafetensorsFolder& folder, const TensorSpec& tensor, SafetensorsFolderWriter& writer) {
  constexpr int64_t kPieceElems = int64_t{1} << 18;
  const DType stored = folder.find(tensor.name)->dtype().value_or(tensor.dtype);
  const int64_t elem_bytes = size_of(stored), elems = tensor.elems();
  auto piece = make_vector<std::byte>(std::min(elems, kPieceElems) * elem_bytes);
  for (int64_t first = 0; first < elems; first += kPieceElems) {
    const int64_t count = std::min(kPieceElems, elems - first);
    folder.read_bytes(tensor.name, first * elem_bytes, first_of(piece, count * elem_bytes));
    writer.append(tensor.name, piece.data(), stored, count);
  }
}

std::vector<std::string> names_of_wrapper_parts(const SafetensorsFolder& folder, const ParameterTable& parameters) {
  std::set<std::string> names;
  for (const TensorSpec& tensor : tensors_of_wrapper_parts(folder, parameters)) {
    size_t end = tensor.name.find('.');
    if (tensor.name.starts_with("model.")) end = tensor.name.find('.', end + 1);
    names.insert(tensor.name.substr(0, end));
  }
  return {names.begin(), names.end()};
}

}  // namespace spillway
