// Copies of a model's folder with another config.json or other tensors, and the dense model that its codes stand for.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/safetensors_writer.h"
#include "model/weights.h"
#include "model/wrapper_parts.h"
#include "tests/support/coded_model.h"
#include "tests/support/tiny_training.h"

namespace spillway::testing {

// Changes a key of a folder's config.json; null removes it.
inline void edit_config(const std::filesystem::path& folder, const std::string& key, const nlohmann::json& value) {
  nlohmann::json config = read_json(folder / "config.json");
  config[key] = value;
  if (value.is_null()) config.erase(key);
  write_file(folder / "config.json", config.dump());
}

// Makes `change` to the tensors of a copy of the model, and returns its folder. Tensors are bytes by name.
template <typename Change>
std::filesystem::path changed_copy(const TemporaryFolder& folder, const std::filesystem::path& model,
                                   const Change& change) {
  const std::filesystem::path copy = folder.path() / "changed";
  std::filesystem::remove_all(copy);
  std::filesystem::copy(model, copy, std::filesystem::copy_options::recursive);
  const SafetensorsFolder files(model);
  std::vector<TensorSpec> specs;
  std::map<std::string, std::vector<std::byte>> contents;
  for (const auto& [name, entry] : files.tensors()) {
    specs.push_back(spec_of_copy(*entry.tensor));
    contents[name].resize(static_cast<size_t>(entry.tensor->bytes));
    files.read_bytes(name, 0, contents[name]);
  }
  change(specs, contents);
  SafetensorsWriter writer(copy / "model.safetensors", specs);
  for (const TensorSpec& spec : specs) writer.append(spec.name, contents[spec.name].data(), spec.dtype, spec.elems());
  writer.commit();
  return copy;
}

// The error in which reading a folder's coded weights ends, or nothing.
inline std::string error_of_codes(const std::filesystem::path& folder) {
  try {
    const ParameterTable parameters = parameters_of(*read_model(folder));
    const SafetensorsFolder files = open_model_weights(folder, parameters);
    for (const Parameter& p : parameters)
      if (p.is_of_model() && p.source.storage->is_coded()) (void)StoredWeight(files, p);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Writes the dense model of the weights that a model's codes stand for, those of its files, or those that `storage`
// makes of its linear layers and experts.
inline std::filesystem::path write_decoded(const TemporaryFolder& folder, const std::filesystem::path& model,
                                           const StoragePtr& storage = nullptr, DType dtype = DType::kBF16) {
  const std::filesystem::path out = folder.path() / "decoded" / model.filename();
  std::filesystem::remove_all(out);
  std::filesystem::create_directories(out.parent_path());
  std::filesystem::copy(model, out, std::filesystem::copy_options::recursive);
  edit_config(out, "quantization_config", nullptr);
  const SafetensorsFolder files(model);
  std::vector<TensorSpec> specs;
  std::map<std::string, std::vector<float>> contents;
  for (const Parameter& p : parameters_of(*read_model(model))) {
    if (!p.is_of_model()) continue;
    std::vector<float> own(static_cast<size_t>(p.shape.elems()));
    StoredWeight(files, p).read({own.data(), DType::kF32, p.shape}, 0);
    const bool is_coded = p.role == ParameterRole::kLinear || p.role == ParameterRole::kExpert;
    if (storage && is_coded) own = encode_tensor(*storage, p.spec(), own).decoded;
    std::vector<float>& content = contents[p.source.name];
    if (content.empty()) specs.push_back({p.source.name, dtype, p.source.shape.dims()});
    content.insert(content.end(), own.begin(), own.end());
  }
  SafetensorsWriter writer(out / "model.safetensors", specs);
  for (const TensorSpec& spec : specs) writer.append(spec.name, contents[spec.name].data(), DType::kF32, spec.elems());
  writer.commit();
  return out;
}

}  // namespace spillway::testing
