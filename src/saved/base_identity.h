// What a model folder's weights are, told by little reading: a run goes on only with the weights it began with.
#pragma once

#include <map>
#include <string>

#include "io/safetensors.h"

namespace spillway::train {

// Name of a tensor -> "BF16[2048, 576] 0123456789abcdef": dtype, shape, and a checksum of samples of its content.
using BaseIdentity = std::map<std::string, std::string>;

// Reads 12 KiB a tensor: its beginning, middle and end. Throws InputError where a file has become shorter.
[[nodiscard]] BaseIdentity identify_base(const SafetensorsFolder& weights);

// Names the first tensor that differs, and how, from what was `written`; empty where all are the same.
[[nodiscard]] std::string difference(const BaseIdentity& written, const BaseIdentity& now);

}  // namespace spillway::train
