// What decoders are built of: norms, projections with their biases and adapters, the rotation of heads, the gated
// feed-forward. Each appends operations to the Graph and the weights that it needs.
//
// Values of the stream are [T, ...], per token, in the dtype of the options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "model/config.h"
#include "model/modules.h"
#include "model/transformer.h"

namespace spillway {

// Queries [T, heads * head_dim], keys and values [T, kv_heads * head_dim].
struct AttentionHeads {
  ValueId q = kNone, k = kNone, v = kNone;
};

// All references are borrowed and must outlive the parts.
class DecoderParts {
 public:
  DecoderParts(Builder& builder, const ModelConfig& config, const DecoderOptions& options);

  // Declares the positions that rotate() reads and, with dropout in LoRA, its seed.
  void set_stream(ValueId positions, ValueId dropout_seed);

  // Rows of the embedding table.
  [[nodiscard]] ValueId embed(ValueId ids);
  // RMS norm over rows; `name` is that of its weight.
  [[nodiscard]] ValueId norm(ValueId x, std::string_view name);

  [[nodiscard]] AttentionHeads project_heads(int64_t layer, ValueId x);
  // RMS norm of each query and key head (Qwen3).
  void normalise_heads(int64_t layer, AttentionHeads& heads);
  // Rotary position embedding of queries and keys.
  void rotate_heads(AttentionHeads& heads);
  // residual + o_proj(attended).
  [[nodiscard]] ValueId project_output(int64_t layer, ValueId attended, ValueId residual);
  // residual + down_proj(silu(gate_proj(x)) * up_proj(x)).
  [[nodiscard]] ValueId mlp(int64_t layer, ValueId x, ValueId residual);

  // The matrix of the head; the embedding where they are tied.
  [[nodiscard]] ValueId head();

  [[nodiscard]] ValueId inv_freq() const { return inv_freq_; }
  // All weights so far, in the order of their first use, and those that are trained.
  [[nodiscard]] const std::vector<ValueId>& weights() const { return weights_; }
  [[nodiscard]] const std::vector<ValueId>& trainable() const { return trainable_; }

 private:
  // residual + W x + b, with the adapter where there is one; residual may be kNone.
  ValueId linear(int64_t layer, Projection projection, ValueId x, ValueId residual = kNone);
  ValueId adapter_update(const LinearModule& module, ValueId x);
  // A weight of the base, trained in full fine-tuning and as one of modules_to_save.
  ValueId weight(std::string name, const Shape& shape);
  ValueId lora_weight(const LinearModule& module, char factor, const Shape& shape);

  Builder& builder_;
  const ModelConfig& config_;
  const DecoderOptions& options_;
  ValueId embedding_ = kNone, inv_freq_ = kNone, positions_ = kNone, dropout_seed_ = kNone;
  std::vector<ValueId> weights_, trainable_;
};

}  // namespace spillway
