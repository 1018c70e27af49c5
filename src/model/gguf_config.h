// config.json out of a GGUF file's metadata, for the architectures llama (Mistral included), qwen2 and qwen3.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "io/gguf.h"
#include "model/gguf_tokenizer.h"
#include "tensor/dtype.h"

namespace spillway {

// What the weights need to know besides config.json.
struct GgufModel {
  std::string architecture;  // "llama", "qwen2" or "qwen3"
  int64_t layers = 0, hidden = 0, intermediate = 0, vocabulary = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool tied = false;                           // no output.weight: the head is the embedding
  bool qkv_bias = false, output_bias = false;  // of the attention's projections
  bool mlp_bias = false;
};

// Throws InputError for other architectures, for what config.json cannot express, and for numbers out of range.
[[nodiscard]] GgufModel read_gguf_model(const GgufFile& file);

// `dtype`: of the weights that will lie beside it.
[[nodiscard]] nlohmann::ordered_json gguf_config(const GgufFile& file, const GgufModel& model,
                                                 const GgufTokenizerFiles& tokenizer, DType dtype);

}  // namespace spillway
