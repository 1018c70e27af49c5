// The weights of a model: a table that the builder of its graph fills. Checking files, loading, LoRA, saving and
// merging read the table, so that names and shapes are written once, where the graph is built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "model/storage.h"

namespace spillway {

enum class ParameterRole : uint8_t {
  kEmbedding,    // [vocabulary, width]
  kHead,         // [vocabulary, width], where it is not the embedding
  kScore,        // [labels, width], of a model that scores in place of predicting tokens
  kScoreBias,    // [labels]
  kNorm,         // [width]
  kLinear,       // W [out_features, in_features] of y = W x + b
  kExpert,       // W [out_features, in_features] of one expert of a mixture
  kRouter,       // W [experts, width] of a mixture
  kBias,         // b [out_features]
  kProjection,   // W [out_features, in_features] of a layer outside of the blocks, which no adapter is for
  kModulation,   // [parts * width], to which what modulates each sequence is added
  kLoraA,        // [r, in_features]; of a mixture's tensor [experts * r, in_features], expert by expert
  kLoraB,        // [out_features, r]; [out_features, r * experts], rank by rank
  kMagnitude,    // [out_features], DoRA's: what the rows' norms become
  kRowSquares,   // [out_features]: the squared norms of the rows of the module's weight (model/row_squares.h)
  kLoraStart,    // f32, what a factor started as where the base is without it: nothing reads it but what saves
  kConstant,     // computed from the config
  kSinks,        // [heads], logits that join the softmaxes of attention
  kScale,        // [numbers], which scale what a router reads or gives, or are an activation's
  kBuffer,       // of the model's files: forward passes read it, no training changes it
  kConvolution,  // [channels, taps] of a convolution over tokens, each channel by itself
  kDecay,        // [heads] or [channels, state], logarithms of the rates at which states decay
};

// The content of a weight or a buffer in a model that transformers makes from a config.
enum class FreshContent : uint8_t {
  kByRole,  // normal numbers for matrices, zeros for biases, ones for scales, and for norms FreshWeights::norm
  kZeros,
  kOnes,
  kUniform,       // uniform numbers from FreshRange::low to high
  kLogOfUniform,  // logarithms of such numbers
  kLogOfCount,    // logarithms of 1, 2, 3, ... in each row
  kNumber,        // Parameter::fresh_number everywhere
  kSteps,         // inverse softplus of e^x, at least FreshRange::least, for such numbers x
};

struct FreshRange {
  double low = 0, high = 0, least = 0;
};

// The initial value of a weight in a model's files.
struct ParameterSource {
  std::string name;
  // Its rank differs from the weight's if the weight is a view of it, or one of its slabs. It may have fewer rows than
  // the weight: the others are those of added tokens.
  Shape shape;
  StoragePtr storage =
      dense_storage();  // as the files have it; loading encodes or decodes where the graph's is another
};

// The tensor in which transformers has a weight of a mixture, and PEFT the factors of an adapter on it.
struct MixtureTensor {
  std::string name;           // "model.layers.0.mlp.experts.gate_up_proj", of all experts; empty: there is none
  Shape shape = {};           // of one expert's part, [out, in]; of a router, the whole
  int64_t experts = 1;        // that have a part
  int64_t expert = 0;         // whose part has the weight
  int64_t first_row = 0;      // of the weight in that part
  bool has_old_name = false;  // PEFT takes names of modules that older versions of transformers had for it
  bool is_in_by_out = false;  // the weight is the transpose of the part, as transformers has gpt-oss's
};

// The prefix of the names of a reference's copies.
inline constexpr std::string_view kCopyPrefix = "reference.";

struct Parameter {
  std::string name;    // Hugging Face's: "model.layers.0.self_attn.q_proj.weight"; of a LoRA factor, PEFT's
  std::string module;  // that it belongs to: "model.layers.0.self_attn.q_proj"; of a LoRA factor, that it adapts
  ParameterRole role = ParameterRole::kLinear;
  Shape shape;
  DType dtype = DType::kF32;   // that the graph computes with
  bool trained = false;        // then its storage is dense
  bool is_copy = false;        // frozen, beside another weight of the name; its values are called "reference.<name>"
  bool is_table = false;       // an embedding that is not the head, too
  bool takes_adapter = true;   // of a linear layer
  bool is_called_norm = true;  // of a norm, by which transformers' Trainer knows it
  // For a linear layer: true if it is made together with its adapter's start (job/adapter_start.h); no file holds it.
  bool loads_with_adapter = false;
  bool merges_adapter = false;  // frozen, and yet it changes: the run merges an adapter into it now and then
  MixtureTensor tensor;         // of a mixture's weight
  int64_t slab = -1;  // of its source's first dimension, of which it is this one, as fused experts are; -1: it is all
  StoragePtr storage = dense_storage();
  std::string name_in_files;   // of a model that is written, where it is another one
  ParameterSource source;      // nameless where no file of the model's holds it: factors, constants, a new score
  double start_deviation = 0;  // of the normal numbers that a new score starts as
  FreshContent fresh = FreshContent::kByRole;
  double fresh_number = 0;
  FreshRange fresh_range;
  std::string copy_in_files;    // a tensor that files may hold besides, and must equal the source; or empty
  std::vector<float> content;   // of a constant
  std::vector<ValueId> values;  // in the graph: one for each part of the storage

  // REQUIRES: a dense weight of a graph.
  [[nodiscard]] ValueId value() const {
    SPILLWAY_CHECK(values.size() == 1, "{} has {} values", name, values.size());
    return values[0];
  }
  [[nodiscard]] WeightSpec spec() const { return {shape, dtype}; }
  [[nodiscard]] bool is_slab() const { return slab >= 0; }
  // Returns the element of a tensor of its source, or of a part of it, with which a weight of `elems` elements begins.
  [[nodiscard]] int64_t first_elem(int64_t elems) const { return is_slab() ? slab * elems : 0; }
  [[nodiscard]] int64_t first_elem() const { return first_elem(shape.elems()); }
  // The tensors of a model's files that hold it. REQUIRES: is_of_model().
  [[nodiscard]] std::vector<ParameterTensor> tensors() const {
    return source.storage->tensors(source.name, {source.shape, dtype});
  }
  // Returns true if the files hold exactly the parts that the graph has, for as long as the run goes on.
  [[nodiscard]] bool is_stored_as_used() const {
    return storage == source.storage && !loads_with_adapter && !merges_adapter;
  }
  // The shape in files that are written.
  [[nodiscard]] const Shape& written_shape() const {
    return is_of_model() && source.shape.rank() != shape.rank() ? source.shape : shape;
  }
  [[nodiscard]] const std::string& written_name() const { return name_in_files.empty() ? name : name_in_files; }
  // Returns true if a model's folder holds it.
  [[nodiscard]] bool is_of_model() const { return !source.name.empty(); }
  // Returns true if a written model folder holds it, which includes new scores.
  [[nodiscard]] bool is_written() const { return is_of_model() || is_score(); }
  [[nodiscard]] bool is_score() const { return role == ParameterRole::kScore || role == ParameterRole::kScoreBias; }
  [[nodiscard]] bool is_of_mixture() const { return role == ParameterRole::kExpert || role == ParameterRole::kRouter; }
  [[nodiscard]] bool is_factor() const { return role == ParameterRole::kLoraA || role == ParameterRole::kLoraB; }
  [[nodiscard]] bool has_row_per_token() const {
    return role == ParameterRole::kEmbedding || role == ParameterRole::kHead;
  }
  // Returns true if weight decay applies to it, by the rule of transformers' Trainer: not to norms and biases.
  [[nodiscard]] bool decays() const {
    return (role != ParameterRole::kNorm || !is_called_norm) && role != ParameterRole::kBias &&
           role != ParameterRole::kScoreBias && role != ParameterRole::kModulation;
  }
};

// Returns the module that has all experts of a layer, "model.layers.0.mlp.experts", for the module of a projection of
// one of them, "model.layers.0.mlp.experts.3.up_proj".
[[nodiscard]] std::string_view experts_module(std::string_view projection);

// The parameters in the order in which the graph first uses them.
class ParameterTable {
 public:
  // REQUIRES: the name is new. Returns the parameter's index.
  size_t add(Parameter parameter);

  [[nodiscard]] size_t size() const { return list_.size(); }
  [[nodiscard]] const Parameter& operator[](size_t index) const { return list_[index]; }
  [[nodiscard]] auto begin() const { return list_.begin(); }
  [[nodiscard]] auto end() const { return list_.end(); }
  // Returns null if there is none of that name.
  [[nodiscard]] const Parameter* find(std::string_view name) const;

  // Finds a parameter by its name in a written model.
  [[nodiscard]] const Parameter* find_written(std::string_view name) const;

  // For a model that is a part of a larger one: tensors of its files whose names begin otherwise belong to other parts.
  // They are not read, and are copied to files that are written of the model.
  void set_own_beginnings(std::vector<std::string> beginnings) { own_beginnings_ = std::move(beginnings); }
  [[nodiscard]] bool has_other_parts() const { return !own_beginnings_.empty(); }
  [[nodiscard]] bool is_of_other_part(std::string_view tensor) const;

  // Ignores tensors in files of the model whose names end so.
  void ignore_ending(std::string ending) { ignored_endings_.push_back(std::move(ending)); }
  [[nodiscard]] bool ignores(std::string_view tensor) const;
  // Forgets the values of a graph that no longer exists.
  void forget_values();

 private:
  std::vector<Parameter> list_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<std::string> ignored_endings_, own_beginnings_;
};

}  // namespace spillway
