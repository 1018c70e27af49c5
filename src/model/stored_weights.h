// Which frozen weights need not be loaded at all: those that the model folder's files hold just as the graph wants
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

  // By value of a graph with `values` values, whether it has a place: what OwnFiles::held asks.
  [[nodiscard]] std::vector<bool> held(size_t values) const;
};

// Adds the frozen weights that `folder` holds whole, in their dtype and shape. By the headers alone: no weight is read.
void add_stored_weights(const ParameterTable& parameters, const SafetensorsFolder& folder, StoredWeights& stored);

}  // namespace spillway
