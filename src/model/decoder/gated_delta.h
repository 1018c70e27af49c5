// The branch of a layer that keeps a matrix for each head in place of attending to its tokens: the gated delta rule.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "model/decoder/layer.h"
#include "model/decoder/parts.h"

namespace spillway {

// The decay of the states of heads, computed of a, [T, heads], and of the weights A_log and dt_bias of a module.
struct StateDecay {
  ValueId negative_steps = kNone;  // f32 [T, heads]: -softplus(a + dt_bias), within the bounds of steps
  ValueId decay = kNone;           // f32 [T, heads]: exp(A_log) times these
};
[[nodiscard]] StateDecay append_state_decay(Layers& layers, const std::string& module, const GatedDelta& description,
                                            ValueId a);

// Borrows its references.
//
// Source: Gated Delta Networks (Yang et al., 2024), as Qwen3-Next has them.
class GatedDeltaPart {
 public:
  // Appends the convolution of x, [T, channels], by a weight [channels, taps].
  using Convolve = std::function<ValueId(ValueId x, ValueId weight)>;
  // Appends the rule; its operands are ops::gated_delta_rule's.
  using ApplyRule = std::function<ValueId(ValueId qkv, ValueId decay, ValueId beta)>;

  // `module` is the path of its module, "model.layers.0.linear_attn".
  GatedDeltaPart(DecoderParts& parts, const GatedDelta& description, std::string module)
      : parts_(parts), description_(description), module_(std::move(module)) {}

  // Appends all but the last projection and returns what that takes, [T, value_width()], or kNone where `apply` returns
  // it.
  [[nodiscard]] ValueId inner(ValueId x, const Convolve& convolve, const ApplyRule& apply) const;
  // Returns the last projection, whose product joins the stream.
  [[nodiscard]] LinearLayer out_projection() const;

 private:
  // The products of x: queries, keys and values beside each other, the gate of the result, and a number of each value
  // head for beta and for the decay.
  struct Projections {
    ValueId qkv = kNone, z = kNone, b = kNone, a = kNone;
  };
  [[nodiscard]] Builder& builder() const { return parts_.layers().builder(); }
  [[nodiscard]] ValueId project(std::string_view name, int64_t width, ValueId x) const;
  [[nodiscard]] Projections project(ValueId x) const;
  [[nodiscard]] Projections project_by_head(ValueId x) const;

  DecoderParts& parts_;
  const GatedDelta& description_;
  std::string module_;
};

}  // namespace spillway
