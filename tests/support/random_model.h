// A model folder of a config, with random weights.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/random.h"
#include "io/file.h"
#include "io/safetensors_writer.h"
#include "model/adapter.h"
#include "model/model.h"

namespace spillway::testing {

// Writes config.json, and the model's weights in f32, uniform in [-largest, largest).
inline void write_random_model(const std::filesystem::path& folder, const nlohmann::json& config, double largest) {
  write_file(folder / "config.json", config.dump());
  std::vector<TensorSpec> specs;
  for (const Parameter& p : parameters_of(*read_model(folder))) {
    if (p.is_of_model()) specs.push_back({p.name, DType::kF32, p.shape.dims()});
  }
  SafetensorsFolderWriter writer(folder, specs);
  RandomStream random(1, 0);
  for (const TensorSpec& spec : specs) {
    std::vector<float> values(static_cast<size_t>(spec.elems()));
    for (float& value : values) value = static_cast<float>(largest * (2 * random.uniform() - 1));
    writer.append(spec.name, values.data(), DType::kF32, spec.elems());
  }
  writer.commit();
}

}  // namespace spillway::testing
