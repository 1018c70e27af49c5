// A golden model whose linear layers are codes, and the dense one that these stand for.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/decoder/decoder.h"
#include "model/model.h"
#include "model/storages/quantised.h"

namespace spillway::testing {

// The formats of bitsandbytes, for weights of a dtype.
inline std::vector<StoragePtr> quantised_storages(DType dtype) {
  return {quantised_storage({WeightCoding::kNf4, 64, true, dtype}),
          quantised_storage({WeightCoding::kFp4, 32, false, dtype}),
          quantised_storage({.coding = WeightCoding::kInt8, .weight_dtype = dtype})};
}

// A weight as codes, and what they stand for.
struct CodedTensor {
  std::vector<std::vector<std::byte>> parts;
  std::vector<float> decoded;
};

inline CodedTensor encode_tensor(const Storage& storage, const WeightSpec& spec, const std::vector<float>& weight) {
  CodedTensor result{.decoded = std::vector<float>(weight.size())};
  std::vector<TensorView> views;
  for (const StoragePart& part : storage.parts(spec)) {
    views.push_back({nullptr, part.dtype, part.shape});
    result.parts.emplace_back();
  }
  ThreadPool pool(1);
  storage.encode(
      "weight", spec,
      [&](int64_t first, int64_t count, float* into) { std::copy_n(weight.begin() + first, count, into); },
      [&](size_t part, const void* elements, int64_t count) {
        const auto* bytes = static_cast<const std::byte*>(elements);
        result.parts[part].insert(result.parts[part].end(), bytes, bytes + count * size_of(views[part].dtype));
      },
      pool);
  for (size_t i = 0; i < views.size(); ++i) views[i].data = result.parts[i].data();
  storage.decode(spec, views, 0, spec.shape[0], result.decoded.data());
  return result;
}

// Copies a model's folder to coded() and to decoded(), where it is f32. With `has_experts` decoded() has what codes of
// experts stand for, too, which no files hold.
class CodedModel {
 public:
  CodedModel(const std::filesystem::path& model, StoragePtr storage, bool has_experts = false)
      : model_(model), storage_(std::move(storage)) {
    for (const std::filesystem::path& to : {coded(), decoded()})
      std::filesystem::copy(model, to, std::filesystem::copy_options::recursive);
    const ParameterTable parameters = parameters_of(*read_model(model));
    const SafetensorsFolder base(model);
    std::vector<TensorSpec> coded_specs, decoded_specs;
    for (const Parameter& p : parameters) {
      if (!p.is_of_model()) continue;
      decoded_specs.push_back({p.name, DType::kF32, p.shape.dims()});
      if (p.role != ParameterRole::kLinear) {
        coded_specs.push_back(decoded_specs.back());
        continue;
      }
      for (const StoragePart& part : storage_->parts(p.spec()))
        coded_specs.push_back({p.name + std::string(part.suffix), part.dtype, part.shape.dims()});
    }
    SafetensorsWriter coded_file(coded() / "model.safetensors", coded_specs),
        decoded_file(decoded() / "model.safetensors", decoded_specs);
    for (const Parameter& p : parameters) {
      if (!p.is_of_model()) continue;
      std::vector<float> values(static_cast<size_t>(p.shape.elems()));
      base.read(p.name, DType::kF32, values.data());
      if (p.role == ParameterRole::kLinear) {
        const CodedTensor tensor = encode_tensor(*storage_, p.spec(), values);
        const std::vector<StoragePart> parts = storage_->parts(p.spec());
        for (size_t i = 0; i < parts.size(); ++i) {
          coded_file.append(p.name + std::string(parts[i].suffix), tensor.parts[i].data(), parts[i].dtype,
                            parts[i].shape.elems());
        }
        values = tensor.decoded;
      } else {
        if (has_experts && p.role == ParameterRole::kExpert)
          values = encode_tensor(*storage_, p.spec(), values).decoded;
        coded_file.append(p.name, values.data(), DType::kF32, std::ssize(values));
      }
      decoded_file.append(p.name, values.data(), DType::kF32, std::ssize(values));
    }
    coded_file.commit();
    decoded_file.commit();
  }

  [[nodiscard]] std::filesystem::path coded() const { return folder_.path() / "coded"; }
  [[nodiscard]] std::filesystem::path decoded() const { return folder_.path() / "decoded"; }
  [[nodiscard]] const std::filesystem::path& original() const { return model_; }
  [[nodiscard]] std::filesystem::path beside(const char* name) const { return folder_.path() / name; }
  [[nodiscard]] const StoragePtr& storage() const { return storage_; }
  [[nodiscard]] ModelPtr model() const {
    DecoderConfig config = read_decoder_config(coded());
    config.linear_storage.storage = storage_;
    return make_decoder(config);
  }

 private:
  TemporaryFolder folder_;
  std::filesystem::path model_;
  StoragePtr storage_;
};

}  // namespace spillway::testing
