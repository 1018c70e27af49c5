#include "model/storages/quantised_files.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "model/quantised/quantised_tensors.h"
#include "model/storages/stored_codes.h"

namespace spillway {
namespace {

QuantisedFormat format_of(const QuantisedTensor& tensor) {
  if (tensor.four) return tensor.four->format;
  // Codes of 8 bits stand for numbers of no dtype: they are rounded to what computes with them.
  return {.coding = WeightCoding::kInt8, .double_quant = false, .weight_dtype = DType::kF32};
}

class StoredQuantised final : public StoredCodes {
 public:
  StoredQuantised(const SafetensorsFolder& folder, QuantisedTensors weights)
      : StoredCodes(format_of(weights.begin()->second)), weights_(std::move(weights)) {
    for (const auto& [name, weight] : weights_) {
      if (format_of(weight) != format())
        throw input_error(folder.file_of(name).string(),
                          "expected {} in the format of {}, got another; quantise all alike", quote(name),
                          quote(weights_.begin()->first));
      for (const std::string& part : part_names(weight))
        if (const StoredTensor* tensor = folder.find(part)) tensors_[name].push_back(*tensor);
    }
  }

  [[nodiscard]] DType decoded_dtype(const WeightSpec& weight) const override {
    return format().coding == WeightCoding::kInt8 ? weight.dtype : format().weight_dtype;
  }

  // The parts of the graph first, then what the files have besides.
  [[nodiscard]] std::vector<ParameterTensor> tensors(const std::string& name, const WeightSpec& weight) const override {
    const auto found = weights_.find(name);
    if (found == weights_.end()) return {{name, weight.shape, {}}};  // which the folder lacks
    if (found->second.shape != weight.shape) {
      throw input_error(quote(name),
                        "expected codes of {}, as config.json has it, got those of {}; use the weights that "
                        "belong to this config",
                        to_string(weight.shape), to_string(found->second.shape));
    }
    std::vector<ParameterTensor> result;
    for (const StoredTensor& tensor : tensors_.at(name)) {
      Shape shape;
      if (tensor.shape.size() == 1) shape = {tensor.shape[0]};
      if (tensor.shape.size() == 2) shape = {tensor.shape[0], tensor.shape[1]};
      result.push_back({tensor.name, shape, tensor.dtype()});
    }
    return result;
  }

  void read(const SafetensorsFolder& folder, const std::string& name, const WeightSpec&, size_t part,
            const TensorView& piece, int64_t first) const override {
    const QuantisedTensor& weight = weights_.at(name);
    const std::span<std::byte> bytes = span_of(piece.as<std::byte>(), piece.bytes());
    if (part == 0) return folder.read_bytes(name, first, bytes);
    if (part == 2) return read_nested(folder, weight, piece, first);
    if (first == 0) check_quant_maps(folder, weight);
    folder.read(weight.absmax(), first, piece.elems(), piece.dtype, piece.data);
    if (piece.dtype == DType::kF32) refuse_negative(weight.absmax(), span_of(piece.as<float>(), piece.elems()));
  }

 private:
  // The parts of the graph in their order, and then the others.
  static std::vector<std::string> part_names(const QuantisedTensor& weight) {
    std::vector<std::string> names = {weight.name, weight.absmax()};
    if (weight.four && weight.four->format.double_quant) names.push_back(weight.nested_absmax());
    for (std::string& name : weight.tensors())
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    return names;
  }

  // The nested scales, and behind them the offset.
  static void read_nested(const SafetensorsFolder& folder, const QuantisedTensor& weight, const TensorView& piece,
                          int64_t first) {
    const int64_t stored = std::clamp(folder.find(weight.nested_absmax())->elems() - first, int64_t{0}, piece.elems());
    if (stored > 0) folder.read(weight.nested_absmax(), first, stored, DType::kF32, piece.data);
    refuse_negative(weight.nested_absmax(), span_of(piece.as<float>(), stored));
    if (stored < piece.elems()) piece.as<float>()[stored] = weight.four->nested_offset;
  }

  static void refuse_negative(const std::string& name, std::span<const float> scales) {
    if (std::none_of(scales.begin(), scales.end(), [](float scale) { return scale < 0; })) return;
    throw input_error(quote(name), "expected no scale below zero, got one; download the file again");
  }

  QuantisedTensors weights_;
  std::map<std::string, std::vector<StoredTensor>, std::less<>> tensors_;
};

}  // namespace

LinearStorage stored_linear_storage(const SafetensorsFolder& folder) {
  constexpr std::string_view kWeight = ".weight";
  QuantisedTensors weights = find_quantised_tensors(folder);
  if (weights.empty()) {
    throw input_error(folder.path().string(),
                      "expected weights that bitsandbytes has quantised, since config.json has a quantization_config, "
                      "got none; remove quantization_config, or download the folder again");
  }
  LinearStorage result;
  for (const auto& [name, entry] : folder.tensors()) {
    if (name.ends_with(kWeight) && !weights.contains(name))
      result.dense_modules.insert(name.substr(0, name.size() - kWeight.size()));
  }
  result.storage = std::make_shared<StoredQuantised>(folder, std::move(weights));
  return result;
}

std::optional<QuantisedFormat> stored_format(const Storage& storage) {
  const auto* stored = dynamic_cast<const StoredQuantised*>(&storage);
  return stored == nullptr ? std::nullopt : std::optional(stored->format());
}

}  // namespace spillway
