// What decoders are built of: norms, projections with their biases and adapters, the rotation of heads, the gated
// feed-forward. Each appends operations to the Graph and the weights that it needs.
//
// Values of the stream are [T, ...], per token, in the dtype of the options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/builder.h"
#include "model/config.h"
#include "model/parameters.h"
#include "model/transformer.h"

namespace spillway {

// Queries [T, heads * head_dim], keys and values [T, kv_heads * head_dim].
struct AttentionHeads {
  ValueId q = kNone, k = kNone, v = kNone;
};

// "model.layers.3."
[[nodiscard]] std::string layer_prefix(int64_t layer);

// All references are borrowed and must outlive the parts.
class DecoderParts {
 public:
  DecoderParts(Builder& builder, const ModelConfig& config, const DecoderOptions& options);

  // Declares the positions that rotate() reads and, with dropout in LoRA, its seed.
  void set_stream(ValueId positions, ValueId dropout_seed);

  // Rows of the embedding table.
  [[nodiscard]] ValueId embed(ValueId ids);
  // RMS norm over rows.
  [[nodiscard]] ValueId norm(ValueId x, const std::string& module);

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

  // All parameters so far.
  [[nodiscard]] const ParameterTable& parameters() const { return parameters_; }

 private:
  // A linear layer y = W x + b.
  struct Linear {
    std::string module;
    int64_t in_features = 0, out_features = 0;
    bool bias = false;
  };
  // residual + W x + b, with the adapter where there is one; residual may be kNone.
  ValueId linear(const Linear& layer, ValueId x, ValueId residual = kNone);
  ValueId adapter_update(const Linear& layer, ValueId x);
  // RMS norm over the rows of `x`, [T, n * width] as [T * n, width].
  ValueId norm(ValueId x, const std::string& module, int64_t width);

  // "MODULE.weight", or "MODULE.bias".
  ValueId weight(ParameterRole role, const std::string& module, const Shape& shape) {
    return add(parameter(role, module, shape)).value();
  }
  Parameter parameter(ParameterRole role, const std::string& module, const Shape& shape) const;
  // The embedding or the head: the vocabulary's rows, of which the `source` may have fewer.
  ValueId vocabulary_weight(ParameterRole role, std::string_view name, std::string_view source);
  // A weight of the base. It is trained in full fine-tuning, and where its module is one of modules_to_save.
  Parameter parameter(ParameterRole role, std::string name, const Shape& shape, ParameterSource source) const;
  ValueId lora_weight(const Linear& layer, ParameterRole role);
  // Makes the graph's values and notes the parameter.
  const Parameter& add(Parameter parameter);

  Builder& builder_;
  const ModelConfig& config_;
  const DecoderOptions& options_;
  ValueId embedding_ = kNone, inv_freq_ = kNone, positions_ = kNone, dropout_seed_ = kNone;
  ParameterTable parameters_;
  int64_t trained_ = 0;  // parameters so far
};

}  // namespace spillway
