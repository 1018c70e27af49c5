// A storage for tests: 8-bit codes and an f32 scale for each row.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/model.h"
#include "ops/dequantise_rows/dequantise_rows.h"

namespace spillway::testing {

inline std::vector<StoragePart> int8_parts(const Shape& weight, DType) {
  return {{"", DType::kI8, weight}, {"_scale", DType::kF32, {weight[0]}}};
}

inline ValueId int8_linear(Builder& builder, ValueId x, std::span<const ValueId> parts,
                           const ops::LinearOptions& options) {
  return ops::linear(builder, x, ops::dequantise_rows(builder, parts[0], parts[1], builder.type(x).dtype), options);
}

inline void int8_decode(std::span<const TensorView> parts, float* weight) {
  const int64_t columns = parts[0].shape[1];
  for (int64_t i = 0; i < parts[0].elems(); ++i)
    weight[i] = static_cast<float>(parts[0].as<int8_t>()[i]) * parts[1].as<float>()[i / columns];
}

inline const StorageDef kInt8Rows{
    .name = "int8_rows", .parts = int8_parts, .linear = int8_linear, .decode = int8_decode};

struct Int8Weight {
  std::vector<int8_t> codes;
  std::vector<float> scales, decoded;
};

inline Int8Weight encode_int8(const std::vector<float>& weight, int64_t rows) {
  Int8Weight result;
  const size_t columns = weight.size() / static_cast<size_t>(rows);
  for (size_t i = 0; i < weight.size(); ++i) {
    if (i % columns == 0) {
      float largest = 0;
      for (size_t c = 0; c < columns; ++c) largest = std::max(largest, std::abs(weight[i + c]));
      result.scales.push_back(largest / 127);
    }
    const float scale = result.scales.back();
    result.codes.push_back(static_cast<int8_t>(scale > 0 ? std::lround(weight[i] / scale) : 0));
    result.decoded.push_back(static_cast<float>(result.codes.back()) * scale);
  }
  return result;
}

// Copies a model's folder to `coded`, where its linear layers' weights are codes and scales, and to `decoded`, where
// they are what these stand for, in f32.
inline void write_int8_model(const std::filesystem::path& model, const std::filesystem::path& coded,
                             const std::filesystem::path& decoded) {
  for (const std::filesystem::path& to : {coded, decoded})
    std::filesystem::copy(model, to, std::filesystem::copy_options::recursive);
  const ParameterTable parameters = parameters_of(*read_model(model));
  const SafetensorsFolder base(model);
  std::vector<TensorSpec> coded_specs, decoded_specs;
  std::map<std::string, Int8Weight> weights;
  for (const Parameter& p : parameters) {
    if (!p.is_of_model()) continue;
    std::vector<float> values(static_cast<size_t>(p.shape.elems()));
    base.read(p.name, DType::kF32, values.data());
    decoded_specs.push_back({p.name, DType::kF32, p.shape.dims()});
    if (p.role != ParameterRole::kLinear) {
      coded_specs.push_back(decoded_specs.back());
      weights[p.name].decoded = values;
      continue;
    }
    for (const StoragePart& part : int8_parts(p.shape, p.dtype))
      coded_specs.push_back({p.name + std::string(part.suffix), part.dtype, part.shape.dims()});
    weights[p.name] = encode_int8(values, p.shape[0]);
  }
  SafetensorsWriter coded_file(coded / "model.safetensors", coded_specs),
      decoded_file(decoded / "model.safetensors", decoded_specs);
  for (const auto& [name, weight] : weights) {
    decoded_file.append(name, weight.decoded.data(), DType::kF32, std::ssize(weight.decoded));
    if (weight.codes.empty()) {
      coded_file.append(name, weight.decoded.data(), DType::kF32, std::ssize(weight.decoded));
      continue;
    }
    coded_file.append(name, weight.codes.data(), DType::kI8, std::ssize(weight.codes));
    coded_file.append(name + "_scale", weight.scales.data(), DType::kF32, std::ssize(weight.scales));
  }
  coded_file.commit();
  decoded_file.commit();
}

}  // namespace spillway::testing
