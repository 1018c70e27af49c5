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

  // Rows of the embedding table, scaled where the config says so, and with noise where the options do.
  [[nodiscard]] ValueId embed(ValueId ids);
  // RMS norm over rows.
  [[nodiscard]] ValueId norm(ValueId x, const std::string& module);

  [[nodiscard]] AttentionHeads project_heads(int64_t layer, ValueId x);
  // RMS norm of each query and key head (Qwen3).
  void normalise_heads(int64_t layer, AttentionHeads& heads);
  // RMS norm of all query heads together, and of all key heads (OLMo 2).
  void normalise_projections(int64_t layer, AttentionHeads& heads);
  // The same heads, by one product with the matrices of all three below each other: qkv_proj (Phi-3).
  [[nodiscard]] AttentionHeads project_fused_heads(int64_t layer, ValueId x);
  // Rotary position embedding of queries and keys, in layers that have one.
  void rotate_heads(int64_t layer, AttentionHeads& heads);
  // residual + residual_scale * o_proj(attended); the residual may be kNone, as below: then nothing is scaled.
  [[nodiscard]] ValueId project_output(int64_t layer, ValueId attended, ValueId residual);
  // residual + residual_scale * down_proj(activation(gate_proj(x)) * up_proj(x)).
  [[nodiscard]] ValueId mlp(int64_t layer, ValueId x, ValueId residual);
  // Without a gate: residual + residual_scale * down_proj(relu(up_proj(x))^2) (Arcee).
  [[nodiscard]] ValueId plain_mlp(int64_t layer, ValueId x, ValueId residual);
  // As mlp, where gate_proj and, below it, up_proj are one: gate_up_proj (Phi-3).
  [[nodiscard]] ValueId fused_mlp(int64_t layer, ValueId x, ValueId residual);
  // residual + residual_scale * branch.
  [[nodiscard]] ValueId join(ValueId residual, ValueId branch);

  // What the head's product with gives the logits: the last norm's rows, times their scale.
  [[nodiscard]] ValueId scaled_for_head(ValueId hidden);
  // The matrix of the head: of the vocabulary (the embedding where they are tied), or of scores.
  [[nodiscard]] ValueId head();
  // Of scores that have one, else kNone.
  [[nodiscard]] ValueId head_bias();

 private:
  // RMS norm over the rows of `x`, [T, n * width] as [T * n, width].
  ValueId norm(ValueId x, const std::string& module, int64_t width);
  void normalise_heads(int64_t layer, AttentionHeads& heads, int64_t query_width, int64_t key_width);
  [[nodiscard]] bool rotates(int64_t layer) const;
  [[nodiscard]] bool has_local_rope(int64_t layer) const;
  [[nodiscard]] LinearLayer attention_layer(int64_t layer, std::string_view name, int64_t heads) const;
  [[nodiscard]] LinearLayer mlp_layer(int64_t layer, std::string_view name, int64_t in, int64_t out) const;
  // residual + residual_scale * last(x).
  [[nodiscard]] ValueId add_branch(const LinearLayer& last, ValueId x, ValueId residual);
  // down_proj(activation(gate) * up), added as above.
  [[nodiscard]] ValueId gated(int64_t layer, ValueId gate, ValueId up, ValueId residual);
  // down_proj(inner), added as above.
  [[nodiscard]] ValueId project_down(int64_t layer, ValueId inner, ValueId residual);
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
