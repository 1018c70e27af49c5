// GGUF's names of the weights of a decoder, and llama.cpp's order of their rows: one table for import and export.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_writer.h"

namespace spillway {

// The properties of a model that determine the names and shapes of its weights.
struct GgufModel {
  std::string architecture;  // "llama", "qwen2" or "qwen3"
  int64_t layers = 0, hidden = 0, intermediate = 0, vocabulary = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool tied = false;                           // no output.weight: the head is the embedding
  bool qkv_bias = false, output_bias = false;  // of the attention's projections
  bool mlp_bias = false;
};

// A tensor under both names.
struct GgufWeight {
  std::string gguf;            // "blk.0.attn_q.weight"
  std::string name;            // Hugging Face's: "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // outermost first
  int64_t permuted_heads = 0;  // > 0: the rows of each of so many heads are interleaved in GGUF
};

// Returns all weights of a model, in the order in which a forward pass reads them.
[[nodiscard]] std::vector<GgufWeight> gguf_weights(const GgufModel& model);

// Convert between the orders of a head's rows, [head_dim, row]. llama.cpp rotates neighbouring rows of a head, Hugging
// Face rows i and i + size / 2. So its converter interleaves the two halves of each head, and an import separates them.
void part_halves(const float* from, float* to, int64_t head_dim, int64_t row);
void interleave_halves(const float* from, float* to, int64_t head_dim, int64_t row);

// The metadata of a GGUF file, apart from its tokenizer. Keys begin with the architecture.
struct GgufDescription {
  GgufModel model;
  GgufMetadata metadata;
  // The content of rope_freqs.weight, factors by which the pairs of a head rotate more slowly; or empty.
  std::vector<float> rope_factors;
};

// Returns the description of the model with this config.json; `where` names that in errors. Throws InputError naming
// the key for what llama.cpp would compute differently or has no converter for.
[[nodiscard]] GgufDescription gguf_description(std::string_view config_json, std::string_view where);

}  // namespace spillway
