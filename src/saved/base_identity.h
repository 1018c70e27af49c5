// A fingerprint of the weights in a model folder, made from a few samples of each tensor. A run only goes on with the
// weights that it began with.
#pragma once

#include <map>
#include <string>

#include "io/safetensors.h"

namespace spillway::train {

// Maps the name of a tensor to "BF16[2048, 576] 0123456789abcdef": dtype, shape, and a checksum of samples of its
// content.
using BaseIdentity = std::map<std::string, std::string>;

// Reads 12 KiB per tensor: its beginning, middle and end. Throws InputError if a file is shorter than its header says.
[[nodiscard]] BaseIdentity identify_base(const SafetensorsFolder& weights);

// Returns a description of the first tensor that differs from what was `written`; empty if all are the same.
[[nodiscard]] std::string difference(const BaseIdentity& written, const BaseIdentity& now);

}  // namespace spillway::train
