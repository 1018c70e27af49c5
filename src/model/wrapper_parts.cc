#include "model/wrapper_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>

#include "base/log.h"
#include "base/sizes.h"
#include "model/storages/fp8.h"

namespace spillway {

std::string part_of(std::string_view tensor) {
  constexpr std::string_view kModel = "model.", kLayers = "model.layers.";
  const size_t begin = tensor.starts_with(kLayers) ? kLayers.size() : tensor.starts_with(kModel) ? kModel.size() : 0;
  return std::string(tensor.substr(0, tensor.find('.', begin)));
}

std::set<std::string, std::less<>> parts_left_out(const SafetensorsFolder& folder, const ParameterTable& parameters) {
  std::set<std::string, std::less<>> result;
  for (const auto& [name, entry] : folder.tensors())
    if (parameters.is_of_other_part(name) && is_of_fp8(folder, name)) result.insert(part_of(name));
  return result;
}

std::vector<TensorSpec> tensors_of_wrapper_parts(const SafetensorsFolder& folder, const ParameterTable& parameters) {
  const std::set<std::string, std::less<>> left_out = parts_left_out(folder, parameters);
  std::vector<TensorSpec> result;
  for (const auto& [name, entry] : folder.tensors())
    if (parameters.is_of_other_part(name) && !left_out.contains(part_of(name)))
      result.push_back(spec_of_copy(*entry.tensor));
  return result;
}

void warn_of_parts_left_out(const SafetensorsFolder& folder, const ParameterTable& parameters) {
  if (const auto left_out = parts_left_out(folder, parameters); !left_out.empty())
    log_warning("{}: parts with weights in FP8 that are not the text model's are not written: {}",
                folder.path().string(), fmt::join(left_out, ", "));
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
  for (const TensorSpec& tensor : tensors_of_wrapper_parts(folder, parameters)) names.insert(part_of(tensor.name));
  return {names.begin(), names.end()};
}

}  // namespace spillway
