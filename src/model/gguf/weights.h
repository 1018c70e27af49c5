// A model as GGUF describes it: the names, shapes and transforms of its tensors, and its metadata. Export writes them,
// import reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_writer.h"

namespace spillway {

// The properties of a model that determine the types of its tensors in a mixture.
struct GgufModel {
  std::string architecture;  // as GGUF names it: "llama"
  int64_t layers = 0, heads = 0, kv_heads = 0, vocabulary = 0;
  bool tied = false;    // no output.weight: the head is the embedding
  int64_t experts = 0;  // of a mixture
};

// A tensor under both names, and what becomes of its values.
struct GgufWeight {
  std::string gguf;            // "blk.0.attn_q.weight"
  std::string name;            // in a model's files: "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // outermost first
  int64_t permuted_heads = 0;  // > 0: the rows of each of so many heads are interleaved in GGUF
  float shift = 0;             // is added to every value in GGUF
  bool is_f32 = false;         // whatever the type of the file: routers
  // The names in a model's files of one projection of each expert, in place of `name`: the tensor has them one behind
  // the other.
  std::vector<std::string> experts{};

  // Returns the tensors of a model's files that it is made of, and the shape of each.
  [[nodiscard]] std::vector<std::string> names() const {
    return experts.empty() ? std::vector<std::string>{name} : experts;
  }
  [[nodiscard]] std::vector<int64_t> shape_in_files() const {
    return {shape.begin() + (experts.empty() ? 0 : 1), shape.end()};
  }
};

// A tensor that only GGUF has: what config.json says in numbers.
struct GgufConstant {
  std::string name;  // "rope_freqs.weight"
  std::vector<float> values;
};

// The content of a GGUF file, apart from its tokenizer.
struct GgufDescription {
  GgufModel model;
  GgufMetadata metadata;            // keys begin with the architecture
  std::vector<GgufWeight> weights;  // all of a model, in the order in which a forward pass reads them
  std::vector<GgufConstant> constants;
};

// Convert between the orders of a head's rows, [head_dim, row]. llama.cpp rotates neighbouring rows of a head, Hugging
// Face rows i and i + size / 2. So its converter interleaves the two halves of each head, and an import separates them.
void part_halves(const float* from, float* to, int64_t head_dim, int64_t row);
void interleave_halves(const float* from, float* to, int64_t head_dim, int64_t row);

// Returns the description of the model with this config.json; `where` names that in errors, and the files of `folder`
// say how the weights of a text model inside a larger one are called. Throws InputError naming the key for what
// llama.cpp would compute differently or has no converter for.
[[nodiscard]] GgufDescription gguf_description(std::string_view config_json, std::string_view where,
                                               const std::filesystem::path& folder);

// Returns the description of the model with a config.json that was made of a GGUF file, which may have what llama.cpp
// passes over. Throws InputError for a config.json that the reader of the folder would refuse.
[[nodiscard]] GgufDescription imported_gguf_description(std::string_view config_json, std::string_view where);

}  // namespace spillway
