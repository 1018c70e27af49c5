// A weight in memory in its storage: what a run that codes it computes with.
#pragma once

#include <cstddef>
#include <vector>

#include "base/parallel.h"
#include "model/parameters.h"

namespace spillway {

// The content of each of its parts, as a graph holds them.
using EncodedWeight = std::vector<std::vector<std::byte>>;

// From a weight's elements, which become those that the parts stand for: decoded ones, or of a dense weight what its
// dtype leaves. Throws InputError where the storage does.
[[nodiscard]] EncodedWeight encode_and_decode(const Parameter& weight, std::vector<float>& elements, ThreadPool& pool);

}  // namespace spillway
