// What decoders are built of: norms, projections, the rotation of heads, the gated feed-forward.
//
// Values of the stream are [T, ...], per token, in the dtype of the options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/decoder/config.h"
#include "model/layers.h"
#include "ops/rope/rope.h"

namespace spillway {

// Weights whose names the config's ties decide on.
inline constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
inline constexpr std::string_view kHead = "lm_head.weight";

// Queries [T, heads * head_dim], keys and values [T, kv_heads * head_dim].
struct AttentionHeads {
  ValueId q = kNone, k = kNone, v = kNone;
};

// "model.layers.3."
[[nodiscard]] std::string layer_prefix(int64_t layer);

// What heads are rotated by.
struct RotationInputs {
  ValueId positions = kNone;    // i32 [T]
  ValueId seq_offsets = kNone;  // i32 [sequences + 1]; kNone: all sequences are taken for `longest` tokens long
  int64_t longest = 0;          // tokens of a sequence at most
};

// All references are borrowed and must outlive the parts.
class DecoderParts {
 public:
  DecoderParts(Layers& layers, const DecoderConfig& config, const RotationInputs& inputs);

  // Rows of the embedding table, scaled where the architecture says so, and with noise where the options do.
  [[nodiscard]] ValueId embed(ValueId ids);
  // RMS norm over rows.
  [[nodiscard]] ValueId norm(ValueId x, const std::string& module);

  [[nodiscard]] AttentionHeads project_heads(int64_t layer, ValueId x);
  // RMS norm of each query and key head (Qwen3).
  void normalise_heads(int64_t layer, AttentionHeads& heads);
  // The same heads, by one product with the matrices of all three below each other: qkv_proj (Phi-3).
  [[nodiscard]] AttentionHeads project_fused_heads(int64_t layer, ValueId x);
  // Rotary position embedding of queries and keys.
  void rotate_heads(int64_t layer, AttentionHeads& heads);
  // residual + o_proj(attended); the residual may be kNone, as below.
  [[nodiscard]] ValueId project_output(int64_t layer, ValueId attended, ValueId residual);
  // residual + down_proj(activation(gate_proj(x)) * up_proj(x)).
  [[nodiscard]] ValueId mlp(int64_t layer, ValueId x, ValueId residual);
  // The same where gate_proj and, below it, up_proj are one: gate_up_proj (Phi-3).
  [[nodiscard]] ValueId fused_mlp(int64_t layer, ValueId x, ValueId residual);
  // residual + branch.
  [[nodiscard]] ValueId join(ValueId residual, ValueId branch);

  // The matrix of the head: of the vocabulary (the embedding where they are tied), or of scores.
  [[nodiscard]] ValueId head();
  // Of scores that have one, else kNone.
  [[nodiscard]] ValueId head_bias();

 private:
  // RMS norm over the rows of `x`, [T, n * width] as [T * n, width].
  ValueId norm(ValueId x, const std::string& module, int64_t width);
  [[nodiscard]] LinearLayer attention_layer(int64_t layer, std::string_view name, int64_t heads) const;
  [[nodiscard]] LinearLayer mlp_layer(int64_t layer, std::string_view name, int64_t in, int64_t out) const;
  // down_proj(activation(gate) * up) + residual.
  [[nodiscard]] ValueId gated(int64_t layer, ValueId gate, ValueId up, ValueId residual);
  // The matrix or the bias of scores.
  [[nodiscard]] ValueId score(ParameterRole role, const Shape& shape, double start_deviation);
  // The embedding or the head: the vocabulary's rows, of which the `source` may have fewer.
  Parameter vocabulary_weight(ParameterRole role, std::string_view name, std::string_view source) const;

  // The angles of a rope as a constant, and what else the operation asks for.
  struct Rotation {
    ValueId inv_freq = kNone;
    ops::RopeOptions options;
    ops::RopeByLength by_length;
  };
  [[nodiscard]] Rotation rotation(std::string name, const RopeConfig& rope);

  Layers& layers_;
  const DecoderConfig& config_;
  RotationInputs inputs_;
  Rotation rotation_, local_rotation_;
  ValueId embedding_ = kNone;
};

}  // namespace spillway
