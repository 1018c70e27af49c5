#include "model/quantised/quantised_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "tensor/codebook.h"

namespace spillway {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__", kScb = ".SCB", kWeight = ".weight";
constexpr int64_t kMaxStateBytes = 4096;

std::string_view without(std::string_view name, std::string_view ending) {
  return name.substr(0, name.size() - ending.size());
}

InputError broken(const SafetensorsFolder& folder, std::string_view tensor, std::string_view expected,
                  std::string_view got) {
  return input_error(folder.file_of(tensor).string(),
                     "expected {} {}, got {}; download the file again, or use the unquantised model", quote(tensor),
                     expected, got);
}

void expect_tensor(const SafetensorsFolder& folder, const std::string& weight, const std::string& name, DType dtype,
                   const std::vector<int64_t>& shape) {
  const StoredTensor* tensor = folder.find(name);
  if (!tensor) throw broken(folder, weight, fmt::format("beside {}", quote(name)), "none of that name");
  if (tensor->dtype() != dtype)
    throw broken(folder, name, fmt::format("as {}", name_of(dtype)), quote(tensor->dtype_name));
  if (tensor->shape != shape)
    throw broken(folder, name, fmt::format("of shape [{}]", fmt::join(shape, ", ")), tensor->shape_text());
}

QuantState read_state(const SafetensorsFolder& folder, const std::string& name) {
  const StoredTensor& tensor = *folder.find(name);
  if (tensor.dtype() != DType::kU8 || tensor.bytes > kMaxStateBytes)
    throw broken(folder, name, fmt::format("as u8 of at most {} bytes", kMaxStateBytes),
                 fmt::format("{} of {}", quote(tensor.dtype_name), tensor.bytes));
  std::string text;
  resize(text, tensor.bytes);
  folder.read(name, DType::kU8, text.data());
  QuantState state = parse_quant_state(text, quote(name));
  if (!name.ends_with(name_of(state.format.coding)))
    throw broken(folder, name, "to hold the type of its name", name_of(state.format.coding));
  return state;
}

QuantisedTensor four_bit_tensor(const SafetensorsFolder& folder, const std::string& state_name, std::string weight) {
  const StoredTensor* codes = folder.find(weight);
  if (!codes) throw broken(folder, state_name, fmt::format("beside {}", quote(weight)), "none of that name");
  const QuantState state = read_state(folder, state_name);
  QuantisedTensor result{std::move(weight), state.shape, state};
  const int64_t elems = state.shape.elems(), blocks = four_bit_blocks(elems, state.format.block_size);
  if (codes->bytes != four_bit_code_bytes(elems))
    throw broken(folder, result.name,
                 fmt::format("in {} bytes, since it stands for {}", four_bit_code_bytes(elems), to_string(state.shape)),
                 fmt::format("{} bytes", codes->bytes));
  const bool nested = state.format.double_quant;
  expect_tensor(folder, result.name, result.quant_map(), DType::kF32, {16});
  expect_tensor(folder, result.name, result.absmax(), nested ? DType::kU8 : DType::kF32, {blocks});
  if (!nested) return result;
  expect_tensor(folder, result.name, result.nested_absmax(), DType::kF32, {div_ceil(blocks, kNestedBlockSize)});
  expect_tensor(folder, result.name, result.nested_quant_map(), DType::kF32, {256});
  return result;
}

QuantisedTensor int8_tensor(const SafetensorsFolder& folder, const std::string& scb, std::string weight) {
  const StoredTensor* codes = folder.find(weight);
  if (!codes) throw broken(folder, scb, fmt::format("beside {}", quote(weight)), "none of that name");
  const std::vector<int64_t>& shape = codes->shape;
  if (codes->dtype() != DType::kI8 || shape.size() != 2 || codes->elems() == 0)
    throw broken(folder, weight, "as i8 of two extents",
                 fmt::format("{} {}", quote(codes->dtype_name), codes->shape_text()));
  QuantisedTensor result{std::move(weight), {shape[0], shape[1]}, {}};
  expect_tensor(folder, result.name, result.absmax(), DType::kF32, {shape[0]});
  const std::string format = result.weight_format();
  if (!folder.find(format)) return result;
  expect_tensor(folder, result.name, format, DType::kU8, {});
  uint8_t value = 0;
  folder.read(format, DType::kU8, &value);
  if (value != 0) throw broken(folder, format, "as 0, which is codes row by row", fmt::format("{}", value));
  return result;
}

// A part without the state that it belongs to would be passed over, or its codes be taken for something else.
void refuse_orphans(const SafetensorsFolder& folder, const QuantisedTensors& found) {
  constexpr std::array<std::string_view, 4> kParts = {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"};
  for (const auto& [name, entry] : folder.tensors()) {
    const bool is_code = entry.tensor->dtype() == DType::kU8 || entry.tensor->dtype() == DType::kI8;
    if (is_code && name.ends_with(kWeight) && !found.contains(name))
      throw broken(folder, name, "beside what decodes it (.quant_state, .SCB)", "neither");
    for (const std::string_view part : kParts) {
      const std::string_view weight = name.ends_with(part) ? without(name, part) : name;
      if (weight != name && !found.contains(weight)) throw broken(folder, name, "beside its .quant_state", "none");
    }
  }
}

void expect_map(const SafetensorsFolder& folder, const std::string& name, std::span<const float> known) {
  // Versions of torch and of the library make maps whose last bits differ.
  constexpr float kTolerance = 1e-6F;
  std::vector<float> map(known.size());
  folder.read(name, DType::kF32, map.data());
  for (size_t i = 0; i < map.size(); ++i) {
    if (std::abs(map[i] - known[i]) <= kTolerance * std::max(1e-3F, std::abs(known[i]))) continue;
    throw broken(folder, name, fmt::format("to hold {} at {}, as bitsandbytes' map does", known[i], i),
                 fmt::format("{}", map[i]));
  }
}

}  // namespace

std::string QuantisedTensor::absmax() const {
  return four ? name + ".absmax" : fmt::format("{}{}", without(name, kWeight), kScb);
}
std::string QuantisedTensor::quant_map() const { return name + ".quant_map"; }
std::string QuantisedTensor::quant_state() const {
  return fmt::format("{}{}{}", name, kState, name_of(four.value().format.coding));
}
std::string QuantisedTensor::nested_absmax() const { return name + ".nested_absmax"; }
std::string QuantisedTensor::nested_quant_map() const { return name + ".nested_quant_map"; }
std::string QuantisedTensor::weight_format() const { return name + "_format"; }

std::vector<std::string> QuantisedTensor::tensors() const {
  if (!four) return {name, absmax(), weight_format()};
  std::vector<std::string> result = {name, absmax(), quant_map(), quant_state()};
  if (four->format.double_quant) {
    result.push_back(nested_absmax());
    result.push_back(nested_quant_map());
  }
  return result;
}

QuantisedTensors find_quantised_tensors(const SafetensorsFolder& folder) {
  QuantisedTensors found;
  for (const auto& [name, entry] : folder.tensors()) {
    const size_t state = name.find(kState);
    std::optional<QuantisedTensor> tensor;
    if (state != std::string::npos) tensor = four_bit_tensor(folder, name, name.substr(0, state));
    if (name.ends_with(kScb)) tensor = int8_tensor(folder, name, fmt::format("{}{}", without(name, kScb), kWeight));
    if (!tensor) continue;
    if (found.contains(tensor->name)) throw broken(folder, name, "to be the only state of its weight", "another");
    found.emplace(tensor->name, std::move(*tensor));
  }
  refuse_orphans(folder, found);
  return found;
}

void check_quant_maps(const SafetensorsFolder& folder, const QuantisedTensor& tensor) {
  if (!tensor.four) return;
  const QuantisedFormat& format = tensor.four->format;
  expect_map(folder, tensor.quant_map(), format.coding == WeightCoding::kNf4 ? kNf4 : kFp4);
  if (format.double_quant) expect_map(folder, tensor.nested_quant_map(), kDynamicSigned);
}

}  // namespace spillway
