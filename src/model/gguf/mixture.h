// The type of each tensor of a GGUF file, by the type of the file.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "io/gguf.h"
#include "model/gguf/weights.h"

namespace spillway {

// A type of files: the encoding of their matrices. Norms, biases and matrices whose rows are not whole blocks have
// wider types.
struct GgufFileType {
  std::string_view name;  // "q8_0"
  GgufType type = GgufType::kF32;
  uint32_t number = 0;      // general.file_type
  bool is_mixture = false;  // matrices that matter more have more bits
};
// Throws InputError at --type for an unknown type, with the nearest.
[[nodiscard]] const GgufFileType& find_gguf_file_type(std::string_view name);

// Returns the type of a tensor as llama.cpp's converter chooses it: f32 for vectors, f16 for matrices whose rows are
// not whole blocks, else `wanted`.
[[nodiscard]] GgufType plain_tensor_type(const std::vector<int64_t>& shape, GgufType wanted);

// Returns the type of a weight in a file of this type. For a mixture, chooses as llama.cpp's llama-quantize does
// without an importance matrix: Q6_K for the head (and for Gemma 4's inputs of layers beside a head that is the
// embedding, F32 for what those are projected by), and for the values and the down projections of the first and the
// last eighth of the layers and of every third between them; Q5_K for other values of models of 70B (80 layers whose
// heads share keys); else Q4_K. Models of eight experts have keys and values in Q8_0, and what attention gives out in
// Q5_K. For rows that are not a multiple of 256, Q8_0, Q5_1 and Q5_0 replace Q6_K, Q5_K and Q4_K.
[[nodiscard]] GgufType tensor_type(const GgufWeight& weight, const GgufModel& model, const GgufFileType& file);

}  // namespace spillway
