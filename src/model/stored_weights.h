// Finds the frozen weights that need not be loaded, because the model folder's files hold them just as the graph wants
// them.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "io/safetensors.h"
#include "model/parameters.h"
#include "runtime/memory.h"

namespace spillway {

struct StoredWeights {
  std::vector<std::filesystem::path> files;  // only those that a place names
  std::map<ValueId, FilePlace> places;       // as many bytes as the value has

  // Returns for each value of a graph with `values` values whether it has a place, for OwnFiles::held.
  [[nodiscard]] std::vector<bool> held(size_t values) const;
};

// Adds the frozen weights that `folder` holds whole, in their dtype and shape. Reads headers only.
void add_stored_weights(const ParameterTable& parameters, const SafetensorsFolder& folder, StoredWeights& stored);

}  // namespace spillway
