// The parts of a decoder around its layers and of all of them: embedding, norms, the rotation of heads, the head.
//
// Values of the stream are [T, ...], per token, in the dtype of the options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/decoder/config.h"
#include "model/layers.h"
#include "ops/rope/rope.h"

namespace spillway {

// Weights whose names the config's ties decide on.
inline constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
inline constexpr std::string_view kHead = "lm_head.weight";
// The table of the inputs of layers that have their own: [vocabulary, layers * width].
inline constexpr std::string_view kLayerEmbedding = "model.embed_tokens_per_layer.weight";

// Queries [T, heads * head_dim]; keys and values [T, kv_heads * head_dim], or kNone where they are another layer's; the
// logits [heads] that join their softmaxes, or kNone; and the gates of what they see, [T, heads * head_dim], or kNone.
struct AttentionHeads {
  ValueId q = kNone, k = kNone, v = kNone, sinks = kNone, gate = kNone;
};

// The use of the experts of a layer by its router.
struct ExpertLoad {
  ValueId load = kNone;  // of this rank's rows: router_load, where the model has a load-balancing loss
  ValueId use = kNone;   // the pairs of each expert as largest_load takes them, of all ranks that share the stream
};

// The inputs from which the rotation of heads follows.
struct RotationInputs {
  ValueId positions = kNone;    // i32 [T]
  ValueId seq_offsets = kNone;  // i32 [sequences + 1]; kNone: all sequences are taken for `longest` tokens long
  int64_t longest = 0;          // tokens of a sequence at most
};

// All references are borrowed and must outlive the parts.
class DecoderParts {
 public:
  DecoderParts(Layers& layers, const DecoderConfig& config, const RotationInputs& inputs);

  // Returns rows of the embedding table, scaled where the config says so, and with noise where the options do.
  [[nodiscard]] ValueId embed(ValueId ids);
  // Makes the inputs of layers that have their own: a row of a table for each token, and a projection of what embed()
  // returned for it. Does nothing for other models.
  void add_layer_inputs(ValueId ids, ValueId embedded);
  // The inputs of all layers, [T, input_width] each; empty where they have none.
  [[nodiscard]] const std::vector<ValueId>& layer_inputs() const { return layer_inputs_; }
  // Returns the norm over the rows of `x`, [T, hidden_size]; or over those of [T * n, width], where `x` is [T, n *
  // width]. Its kind is the architecture's.
  [[nodiscard]] ValueId norm(ValueId x, const std::string& module);
  [[nodiscard]] ValueId norm(ValueId x, const std::string& module, int64_t width);
  // The same with another epsilon than the config's.
  [[nodiscard]] ValueId norm(ValueId x, const std::string& module, int64_t width, double eps);
  // Returns the root-mean-square norm over rows of `width` numbers, without a weight.
  [[nodiscard]] ValueId plain_norm(ValueId x, int64_t width);
  // Rotates queries, and keys if there are any, by their positions: DecoderConfig::ropes[rope].
  void rotate(AttentionHeads& heads, size_t rope);
  // Returns the parts of queries that latent attention does not rotate, [T, heads * width], which grow with their
  // positions as those that it rotates do; x where they do not grow.
  [[nodiscard]] ValueId grown(ValueId x, int64_t width, size_t rope);
  // Returns residual + residual_scale * branch.
  [[nodiscard]] ValueId join(ValueId residual, ValueId branch);

  // Returns the last norm's rows, times the scale of logits: the head's product with them gives the logits.
  [[nodiscard]] ValueId scaled_for_head(ValueId hidden);
  // Returns the matrix of the head: of the vocabulary (the embedding where they are tied), or of scores.
  [[nodiscard]] ValueId head();
  // Returns the bias of scores that have one, else kNone.
  [[nodiscard]] ValueId head_bias();

  // The offsets of sequences in this rank's rows where ranks share them, i32 [sequences + 1]; else kNone.
  [[nodiscard]] ValueId own_offsets() const {
    return layers_.options().context_ranks > 1 ? inputs_.seq_offsets : kNone;
  }

  // The loads of the experts of layers, in their order, for append_expert_loads().
  [[nodiscard]] std::vector<ExpertLoad>& expert_loads() { return expert_loads_; }

  [[nodiscard]] Layers& layers() { return layers_; }
  [[nodiscard]] const DecoderConfig& config() const { return config_; }

 private:
  // Returns the matrix or the bias of scores.
  [[nodiscard]] ValueId score(ParameterRole role, const Shape& shape, double start_deviation);
  // Adds the weight of plain norms over rows of `width` numbers, unless it is there.
  void add_ones(int64_t width);
  // Returns an embedding or the head: the vocabulary's rows of `width` numbers, of which the `source` may have fewer.
  Parameter vocabulary_weight(ParameterRole role, std::string_view name, std::string_view source, int64_t width) const;
  // Returns the rows of a table, times the scale, which is rounded where the architecture says so.
  ValueId look_up(ValueId ids, ValueId table, double scale);

  // A rope in the graph: its angles as a constant, and what else the operation asks for.
  struct Rotation {
    ValueId inv_freq = kNone;
    ops::RopeOptions options;
    ops::RopeByLength by_length;
  };
  [[nodiscard]] Rotation rotation(std::string name, const RopeConfig& rope, int64_t head_dim);
  // Makes the options of queries, which may grow, of those of keys.
  [[nodiscard]] ops::RopeOptions of_queries(ops::RopeOptions options, const RopeConfig& rope) const;

  Layers& layers_;
  const DecoderConfig& config_;
  RotationInputs inputs_;
  std::vector<std::optional<Rotation>> rotations_;  // of config.ropes; empty where no layer is rotated by it
  ValueId still_ = kNone;                           // the angles of what grows and is not rotated: zeros
  std::map<int64_t, ValueId> ones_;                 // the weights of plain norms, by their width
  ValueId embedding_ = kNone;
  std::vector<ValueId> layer_inputs_;
  std::vector<ExpertLoad> expert_loads_;
};

}  // namespace spillway
