// A model folder of many small layers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "tests/support/golden_models.h"
#include "tests/support/random_model.h"

namespace spillway::testing {

// Writes a golden model's config with more layers, perhaps with another width of their feed-forward part, and random
// weights in f32.
inline void write_deep_model(const std::filesystem::path& folder, int64_t layers, int64_t intermediate_size = 0) {
  nlohmann::json config = nlohmann::json::parse(read_file(kGoldenModels / "llama2/config.json", 1 << 20));
  config["num_hidden_layers"] = layers;
  if (intermediate_size > 0) config["intermediate_size"] = intermediate_size;
  write_random_model(folder, config, 0.2);
}

}  // namespace spillway::testing
