// A model folder of many small layers.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/random.h"
#include "io/file.h"
#include "io/safetensors_writer.h"
#include "model/adapter.h"
#include "model/model.h"
#include "tests/support/golden_models.h"

namespace spillway::testing {

// Writes a golden model's config with more layers, perhaps with another width of their feed-forward part, and random
// weights in f32.
inline void write_deep_model(const std::filesystem::path& folder, int64_t layers, int64_t intermediate_size = 0) {
  nlohmann::json config = nlohmann::json::parse(read_file(kGoldenModels / "llama2/config.json", 1 << 20));
  config["num_hidden_layers"] = layers;
  if (intermediate_size > 0) config["intermediate_size"] = intermediate_size;
  write_file(folder / "config.json", config.dump());
  std::vector<TensorSpec> specs;
  for (const Parameter& p : parameters_of(*read_model(folder))) {
    if (p.is_of_model()) specs.push_back({p.name, DType::kF32, p.shape.dims()});
  }
  SafetensorsFolderWriter writer(folder, specs);
  RandomStream random(1, 0);
  for (const TensorSpec& spec : specs) {
    std::vector<float> values(static_cast<size_t>(spec.elems()));
    for (float& value : values) value = static_cast<float>(0.4 * random.uniform() - 0.2);
    writer.append(spec.name, values.data(), DType::kF32, spec.elems());
  }
  writer.commit();
}

}  // namespace spillway::testing
