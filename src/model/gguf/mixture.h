// Which type each tensor of a GGUF file has, by the type of the file.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "io/gguf.h"
#include "model/gguf/weights.h"

namespace spillway {

// A type of files: what their matrices are encoded as. Norms, biases and rows that are no whole blocks stay wider.
struct GgufFileType {
  std::string_view name;  // "q8_0"
  GgufType type = GgufType::kF32;
  uint32_t number = 0;      // general.file_type
  bool is_mixture = false;  // matrices that matter more have more bits
};
// Throws InputError at --type for an unknown one, with the nearest.
[[nodiscard]] const GgufFileType& find_gguf_file_type(std::string_view name);

// As the converter has it: vectors in f32, and matrices whose rows are no whole blocks in f16.
[[nodiscard]] GgufType plain_tensor_type(const std::vector<int64_t>& shape, GgufType wanted);

// The type of a weight in a file of such a type. Of a mixture as llama.cpp's llama-quantize chooses without an
// importance matrix: Q6_K for the head, and for the values and the down projections of the first and the last eighth of
// the layers and of every third between them, Q5_K for other values of models of 70B (80 layers whose heads share
// keys), Q4_K else; for rows that are no multiple of 256, Q8_0, Q5_1 and Q5_0 in their places.
[[nodiscard]] GgufType tensor_type(const GgufWeight& weight, const GgufModel& model, const GgufFileType& file);

}  // namespace spillway
