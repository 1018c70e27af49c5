// Encodes a weight in memory with its storage, as a run that quantises it.
#pragma once

#include <cstddef>
#include <vector>

#include "base/parallel.h"
#include "model/parameters.h"

namespace spillway {

// The content of each part of a weight, as a graph holds them.
using EncodedWeight = std::vector<std::vector<std::byte>>;

// Encodes a weight's elements and replaces them with the values that the parts stand for: decoded codes, or for a dense
// weight the values rounded to its dtype. Throws InputError as the storage does.
[[nodiscard]] EncodedWeight encode_and_decode(const Parameter& weight, std::vector<float>& elements, ThreadPool& pool);

}  // namespace spillway
