#include "model/storages/fp8.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "model/parameters.h"
#include "model/storages/stored_codes.h"

namespace spillway {
namespace {

constexpr std::string_view kCodes = "F8_E4M3", kModuleWeight = ".weight", kExperts = ".experts.";
constexpr std::array<std::string_view, 2> kScaleEndings = {"_scale_inv", "_scale"};
constexpr std::array<std::string_view, 2> kInputScales = {"activation_scale", "input_scale"};

// The tensors that a folder has beside the codes of a weight.
struct Fp8Companions {
  StoredTensor scale;
  std::vector<StoredTensor> of_inputs;
};
using Fp8Weights = std::map<std::string, Fp8Companions, std::less<>>;

bool is_codes(const StoredTensor& tensor) { return tensor.dtype_name == kCodes; }

// The name of a tensor beside a weight, "q_proj.input_scale" or, for experts in a stack, "gate_up_proj_input_scale".
std::string beside(const std::string& weight, std::string_view name) {
  if (!weight.ends_with(kModuleWeight)) return fmt::format("{}_{}", weight, name);
  return fmt::format("{}.{}", weight.substr(0, weight.size() - kModuleWeight.size()), name);
}

class StoredFp8 final : public StoredCodes {
 public:
  StoredFp8(const QuantisedFormat& format, Fp8Weights weights) : StoredCodes(format), weights_(std::move(weights)) {}

  [[nodiscard]] bool has_input_scales() const {
    return std::any_of(weights_.begin(), weights_.end(), [](const auto& one) { return !one.second.of_inputs.empty(); });
  }

  [[nodiscard]] std::vector<StoragePart> parts(const WeightSpec& weight) const override {
    std::vector<StoragePart> result = StoredCodes::parts(weight);
    result[1].suffix = "_scale";
    return result;
  }

  // The parts of the graph first, then what the files have besides.
  [[nodiscard]] std::vector<ParameterTensor> tensors(const std::string& name, const WeightSpec& weight) const override {
    std::vector<ParameterTensor> result = {{name, weight.shape, {}, kCodes}};
    const auto found = weights_.find(name);
    if (found == weights_.end()) return result;  // which the folder lacks, or has in another dtype
    check_scale(found->second.scale, weight.shape);
    const auto add = [&](const StoredTensor& tensor) {
      result.push_back({tensor.name, Shape(std::span(tensor.shape)), {}, {}});
    };
    add(found->second.scale);
    for (const StoredTensor& tensor : found->second.of_inputs) add(tensor);
    return result;
  }

  void read(const SafetensorsFolder& folder, const std::string& name, const WeightSpec& weight, size_t part,
            const TensorView& piece, int64_t first) const override {
    if (part == 0) return read_codes(folder, name, piece, first);
    const StoredTensor& scale = weights_.at(name).scale;
    const std::span<float> scales = span_of(piece.as<float>(), piece.elems());
    if (format().block_columns != 0) {
      folder.read(scale.name, first, std::ssize(scales), DType::kF32, scales.data());
    } else {
      read_rows(folder, scale, folder.find(name)->elems() / weight.shape[-1], first, scales);
    }
    for (const float one : scales) {
      if (one >= 0 && one <= kMaxFp8Scale) continue;
      throw input_error(quote(scale.name), "expected scales of at least zero and at most 2^118, got {}; {}", one,
                        "download the file again");
    }
  }

  [[nodiscard]] DType decoded_dtype(const WeightSpec& weight) const override { return weight.dtype; }
  void encode(const std::string&, const WeightSpec&, const Source&, const Append&, ThreadPool&) const override {
    report_bug(__FILE__, __LINE__, "encode", "nothing is encoded in fp8");
  }

 private:
  static void read_codes(const SafetensorsFolder& folder, const std::string& name, const TensorView& piece,
                         int64_t first) {
    folder.read_bytes(name, first, span_of(piece.as<std::byte>(), piece.bytes()));
    const std::span<const uint8_t> codes = span_of(piece.as<uint8_t>(), piece.elems());
    const auto bad = std::find_if(codes.begin(), codes.end(), is_e4m3_nan);
    if (bad != codes.end()) {
      throw input_error(quote(name), "expected codes that are numbers, got NaN at element {}; download the file again",
                        first + (bad - codes.begin()));
    }
  }

  // Reads the scales of rows [first, ...) of the `rows` of all experts, of which equal groups share one.
  static void read_rows(const SafetensorsFolder& folder, const StoredTensor& scale, int64_t rows, int64_t first,
                        std::span<float> out) {
    if (out.empty()) return;
    const int64_t group = rows / scale.elems(), begin = first / group;
    auto stored = make_vector<float>((first + std::ssize(out) - 1) / group + 1 - begin);
    folder.read(scale.name, begin, std::ssize(stored), DType::kF32, stored.data());
    for (int64_t i = 0; i < std::ssize(out); ++i) nth(out, i) = nth(stored, (first + i) / group - begin);
  }

  void check_scale(const StoredTensor& scale, const Shape& weight) const {
    const int64_t rows = weight[-2], experts = weight.rank() == 3 ? weight[0] : 1;
    std::vector<int64_t> wanted = {fp8_scale_rows(format(), rows), fp8_scale_columns(format(), weight[-1])};
    if (weight.rank() == 3) wanted.insert(wanted.begin(), experts);
    bool fits = scale.shape == wanted;
    if (format().block_columns == 0 && std::ssize(scale.shape) <= weight.rank()) {
      const int64_t groups = scale.elems() / experts;
      const bool is_column = scale.shape.size() <= 1 || scale.shape.back() == 1;
      fits = is_column && groups > 0 && scale.elems() % experts == 0 && rows % groups == 0;
    }
    if (fits) return;
    throw input_error(quote(scale.name), "expected scales of shape {} for a weight of {} in {}, got {}; {}",
                      to_string(Shape(std::span(std::as_const(wanted)))), to_string(weight), blocks_text(),
                      scale.shape_text(), "use the weights that belong to this config");
  }

  [[nodiscard]] std::string blocks_text() const {
    if (format().block_columns == 0) return "rows, or one for groups of them";
    return fmt::format("blocks of {} x {}", format().block_rows, format().block_columns);
  }

  Fp8Weights weights_;
};

const StoredTensor& scale_of(const SafetensorsFolder& folder, const std::string& codes) {
  for (const std::string_view ending : kScaleEndings)
    if (const StoredTensor* scale = folder.find(fmt::format("{}{}", codes, ending))) return *scale;
  throw input_error(folder.file_of(codes).string(),
                    "expected a tensor '{}_scale_inv' beside {}, got none of that name; {}", codes, quote(codes),
                    "download the folder again");
}

Fp8Weights find_fp8(const SafetensorsFolder& folder) {
  Fp8Weights result;
  for (const auto& [name, entry] : folder.tensors()) {
    if (!is_codes(*entry.tensor)) continue;
    Fp8Companions companions{.scale = scale_of(folder, name)};
    for (const std::string_view of_inputs : kInputScales)
      if (const StoredTensor* scale = folder.find(beside(name, of_inputs))) companions.of_inputs.push_back(*scale);
    for (const StoredTensor& tensor : companions.of_inputs) {
      if (std::ssize(tensor.shape) > Shape::kMaxRank)
        throw input_error(folder.file_of(name).string(),
                          "expected {} to be a number, or one for each expert, got {}; {}", quote(tensor.name),
                          tensor.shape_text(), "download the folder again");
    }
    result.emplace(name, std::move(companions));
  }
  return result;
}

// Returns the module that has all experts of a layer, for a tensor of one of them or of all; nothing for another one.
std::string_view experts_of(std::string_view tensor) {
  const size_t at = tensor.rfind(kExperts);
  return at == std::string_view::npos ? std::string_view() : tensor.substr(0, at + kExperts.size() - 1);
}

}  // namespace

LinearStorage stored_fp8(const SafetensorsFolder& folder, const QuantisedFormat& format) {
  Fp8Weights weights = find_fp8(folder);
  if (weights.empty()) {
    throw input_error(folder.path().string(),
                      "expected weights in F8_E4M3, as config.json's quantization_config says, got none; use a model "
                      "that has them, or remove quantization_config from one in another dtype");
  }
  std::map<std::string_view, std::string_view> coded;  // modules of experts, and a tensor of each
  for (const auto& [name, companions] : weights)
    if (const std::string_view module = experts_of(name); !module.empty()) coded.emplace(module, name);
  LinearStorage result{.has_experts = true};
  for (const auto& [name, entry] : folder.tensors()) {
    const bool is_stack = entry.tensor->shape.size() == 3;
    const bool is_scale = weights.contains(name.substr(0, name.rfind("_scale")));
    if (is_codes(*entry.tensor) || is_scale || (!name.ends_with(kModuleWeight) && !is_stack)) continue;
    result.dense_modules.insert(name.substr(0, name.rfind('.')));
    const std::string_view module = experts_of(name);
    if (module.empty()) continue;
    if (const auto other = coded.find(module); other != coded.end())
      throw input_error(folder.file_of(name).string(), "expected {} in F8_E4M3, as {} is, got {}; {}", quote(name),
                        quote(other->second), entry.tensor->dtype_name, "quantise all experts of a layer alike");
    result.dense_modules.emplace(module);
  }
  result.storage = std::make_shared<StoredFp8>(format, std::move(weights));
  return result;
}

LinearStorage planned_fp8(const QuantisedFormat& format, std::set<std::string, std::less<>> dense) {
  return {.storage = std::make_shared<StoredFp8>(format, Fp8Weights()),
          .dense_modules = std::move(dense),
          .has_experts = true};
}

bool is_of_fp8(const SafetensorsFolder& folder, std::string_view tensor) {
  const auto are_codes = [&](std::string_view name) {
    const StoredTensor* found = folder.find(name);
    return found != nullptr && is_codes(*found);
  };
  if (are_codes(tensor)) return true;
  for (const std::string_view ending : kScaleEndings)
    if (tensor.ends_with(ending) && are_codes(tensor.substr(0, tensor.size() - ending.size()))) return true;
  for (const std::string_view ending : kInputScales) {
    if (tensor.size() <= ending.size() || !tensor.ends_with(ending)) continue;
    const std::string_view owner = tensor.substr(0, tensor.size() - ending.size() - 1);
    if (are_codes(owner) || are_codes(fmt::format("{}{}", owner, kModuleWeight))) return true;
  }
  return false;
}

bool is_stored_fp8(const Storage& storage) { return dynamic_cast<const StoredFp8*>(&storage) != nullptr; }

bool has_input_scales(const Storage& storage) {
  const auto* stored = dynamic_cast<const StoredFp8*>(&storage);
  return stored != nullptr && stored->has_input_scales();
}

}  // namespace spillway
