// What GGUF calls the weights of a decoder, and in which order llama.cpp keeps their rows: one table for what is
// imported and what is exported.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_writer.h"

namespace spillway {

// What the names and shapes of weights depend on.
struct GgufModel {
  std::string architecture;  // "llama", "qwen2" or "qwen3"
  int64_t layers = 0, hidden = 0, intermediate = 0, vocabulary = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool tied = false;                           // no output.weight: the head is the embedding
  bool qkv_bias = false, output_bias = false;  // of the attention's projections
  bool mlp_bias = false;
};

// One tensor under both names.
struct GgufWeight {
  std::string gguf;            // "blk.0.attn_q.weight"
  std::string name;            // Hugging Face's: "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // outermost first
  int64_t permuted_heads = 0;  // > 0: the rows of each of so many heads are interleaved in GGUF
};

// All weights of a model, in the order in which a forward pass reads them.
[[nodiscard]] std::vector<GgufWeight> gguf_weights(const GgufModel& model);

// llama.cpp rotates neighbouring rows of a head, Hugging Face row i and row i + size / 2: so its converter interleaves
// the two halves of each head, and an import parts them again. `from` and `to`: [head_dim, row].
void part_halves(const float* from, float* to, int64_t head_dim, int64_t row);
void interleave_halves(const float* from, float* to, int64_t head_dim, int64_t row);

// What a GGUF file says of a model besides its weights' values and its tokenizer. Keys begin with the architecture.
struct GgufDescription {
  GgufModel model;
  GgufMetadata metadata;
  // rope_freqs.weight, by which the pairs of a head turn slower; or empty.
  std::vector<float> rope_factors;
};

// Of the model whose config.json this is; `where` names that in errors. Throws InputError naming the key for what
// llama.cpp would compute otherwise or has no converter for.
[[nodiscard]] GgufDescription gguf_description(std::string_view config_json, std::string_view where);

}  // namespace spillway
