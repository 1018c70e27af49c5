// A model as GGUF describes it: the names, shapes and transforms of its tensors, and its metadata. Export writes them,
// import reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_writer.h"

namespace spillway {

// The properties of a model that determine the types of its tensors in a mixture.
struct GgufModel {
  std::string architecture;  // as GGUF names it: "llama"
  int64_t layers = 0, heads = 0, kv_heads = 0, vocabulary = 0;
  bool tied = false;                    // no output.weight: the head is the embedding
  int64_t experts = 0;                  // of a mixture
  std::vector<int64_t> value_layers{};  // those with a matrix of values, in their order
  std::vector<int64_t> down_layers{};   // those with a feed-forward or experts, in their order
};

// An axis of a view: `count` positions, `stride` elements apart.
struct GgufAxis {
  int64_t count = 0, stride = 0;
};

// A view of a tensor of a model's files: its elements in the order in which GGUF has them.
struct GgufPart {
  std::string name;              // "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;    // in the files, outermost first
  int64_t first = 0;             // the element at which the view begins
  std::vector<GgufAxis> axes{};  // outermost first; empty: the whole tensor as it lies
  std::vector<float> factors{};  // GGUF has the elements times each of these in turn

  // Returns true if the view is the tensor as it lies.
  [[nodiscard]] bool is_as_stored() const { return axes.empty() && factors.empty(); }
  // Return the number of elements of the view, and of the tensor.
  [[nodiscard]] int64_t elems() const;
  [[nodiscard]] int64_t elems_in_files() const;
  // Copies the view's elements out of the tensor's, `from`, times the factors, or back into them. REQUIRES of
  // scatter(): no factors, which a folder that is made of a file never has.
  void gather(const float* from, float* to) const;
  void scatter(const float* from, float* to) const;
};

// Returns the view of a factor of an adapter on the matrix that `part` is of, [out_features, in_features]: of B
// [out_features, rank] the rows as they are ordered in GGUF, or of A [rank, in_features] the columns. REQUIRES: no axis
// crosses rows.
[[nodiscard]] GgufPart view_of_factor(const GgufPart& part, char which, int64_t rank);

// A tensor of GGUF, what it is made of, and what becomes of its values.
struct GgufWeight {
  std::string gguf;             // "blk.0.attn_q.weight"
  std::vector<int64_t> shape;   // in GGUF, outermost first
  std::vector<GgufPart> parts;  // one behind the other, each of whole rows
  float shift = 0;              // is added to every value in GGUF
  bool is_rate = false;         // GGUF has -exp of every value
  bool is_f32 = false;          // whatever the type of the file: routers, convolutions, biases of experts

  // Convert values of the files to those of GGUF, and back: -exp comes back to within its rounding.
  void to_gguf(std::span<float> values) const;
  void to_files(std::span<float> values) const;
};

// A tensor that only GGUF has: what config.json says in numbers.
struct GgufConstant {
  std::string name;  // "rope_freqs.weight"
  std::vector<float> values;
};

// A list of numbers in metadata, each of which the files of a model have as a tensor of one element.
struct GgufNumbers {
  std::string key;              // "xielu.alpha_p"
  std::vector<GgufPart> parts;  // layer by layer
};

// The content of a GGUF file, apart from its tokenizer.
struct GgufDescription {
  GgufModel model;
  GgufMetadata metadata;            // keys begin with the architecture
  std::vector<GgufWeight> weights;  // all of a model, in the order in which a forward pass reads them
  std::vector<GgufConstant> constants;
  std::vector<GgufNumbers> numbers{};
  std::vector<std::string> unread{};  // tensors that files of others may have, and that no forward pass reads
};

// Returns the number of layers behind the model's own, which predict several tokens and which nothing here reads.
[[nodiscard]] int64_t unread_gguf_layers(const GgufFile& file);

// Returns the description of the model with this config.json; `where` names that in errors, and the files of `folder`
// say how the weights of a text model inside a larger one are called. Throws InputError naming the key for what
// llama.cpp would compute differently or has no converter for.
[[nodiscard]] GgufDescription gguf_description(std::string_view config_json, std::string_view where,
                                               const std::filesystem::path& folder);

// Returns the description of the model with a config.json that was made of a GGUF file, which may have what llama.cpp
// passes over. Throws InputError for a config.json that the reader of the folder would refuse.
[[nodiscard]] GgufDescription imported_gguf_description(std::string_view config_json, std::string_view where);

}  // namespace spillway
