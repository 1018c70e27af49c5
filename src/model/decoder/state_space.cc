#include "model/decoder/state_space.h"

#include <vector>

#include "ops/activation/activation.h"
#include "ops/cast/cast.h"
#include "ops/pointwise/pointwise.h"
#include "ops/repeat_columns/repeat_columns.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/scale/scale.h"
#include "ops/scale_columns/scale_columns.h"
#include "ops/split_columns/split_columns.h"
#include "ops/swiglu/swiglu.h"

namespace spillway {

ValueId StateSpacePart::convolved(ValueId x, const ShortConvolutionPart::Convolve& convolve) const {
  Layers& layers = parts_.layers();
  const std::string module = module_ + ".conv1d";
  const ValueId weight = convolution_weight(layers, module, description_.channels(), description_.taps);
  const ValueId bias =
      description_.conv_bias ? layers.weight(ParameterRole::kBias, module, {description_.channels()}) : kNone;
  return ops::silu(layers.builder(), convolve(x, weight, bias));
}

// Returns y + D x, where x are the values, and D has a number for each of their heads.
ValueId StateSpacePart::with_values(ValueId y, ValueId convolved) const {
  Layers& layers = parts_.layers();
  Builder& builder = layers.builder();
  const int64_t heads = description_.heads.value_heads, width = description_.value_width();
  const ValueId values = ops::split_columns(builder, convolved, {width, description_.channels() - width})[0];
  Parameter numbers = layers.named_parameter(ParameterRole::kScale, module_ + ".D", module_, {heads, 1});
  numbers.source.shape = {heads};
  const ValueId factors = ops::repeat_columns(
      builder, ops::cast(builder, layers.add(std::move(numbers)).value(), DType::kF32), description_.heads.value_dim);
  return ops::scale_columns(builder, values, factors, {.addend = y});
}

// Returns x normalised by groups, times the weights.
ValueId StateSpacePart::norm(ValueId x) const {
  Layers& layers = parts_.layers();
  Builder& builder = layers.builder();
  const int64_t width = description_.value_width(), groups = description_.heads.key_heads;
  const ValueId weight = layers.weight(ParameterRole::kNorm, module_ + ".norm", {width});
  if (groups == 1) return ops::rms_norm(builder, x, weight, parts_.config().norm_eps);
  return ops::scale_columns(builder, parts_.plain_norm(x, width / groups), ops::cast(builder, weight, DType::kF32));
}

// Returns y gated, and normalised where the norm stands.
ValueId StateSpacePart::gated(ValueId gate, ValueId y) const {
  Builder& builder = parts_.layers().builder();
  if (description_.norm == StateNorm::kBeforeGate) return ops::swiglu(builder, gate, norm(y));
  const ValueId result = ops::swiglu(builder, gate, y);
  return description_.norm == StateNorm::kAbsent ? result : norm(result);
}

// Returns the gates, what is convolved and the steps, each as wide as the scales and the projection make them.
std::vector<ValueId> StateSpacePart::projected(ValueId x) const {
  Layers& layers = parts_.layers();
  Builder& builder = layers.builder();
  const StateScales& scales = description_.scales;
  const int64_t heads = description_.heads.value_heads, width = description_.value_width();
  const LinearLayer in_projection{.module = module_ + ".in_proj",
                                  .in_features = parts_.config().hidden_size,
                                  .out_features = width + description_.channels() + heads,
                                  .bias = description_.bias};
  const ValueId all = layers.linear(in_projection, ops::scale(builder, x, scales.input));
  std::vector<ValueId> parts = ops::split_columns(builder, all, {width, description_.channels(), heads});
  parts[0] = ops::scale(builder, parts[0], scales.gate);
  parts[2] = ops::scale(builder, parts[2], scales.steps);
  if (scales.values == 1 && scales.keys == 1 && scales.queries == 1) return parts;
  const int64_t keys = (description_.channels() - width) / 2;
  const std::vector<int64_t> widths = {width, keys, keys};
  std::vector<ValueId> convolved = ops::split_columns(builder, parts[1], widths);
  convolved[0] = ops::scale(builder, convolved[0], scales.values);
  convolved[1] = ops::scale(builder, convolved[1], scales.keys);
  convolved[2] = ops::scale(builder, convolved[2], scales.queries);
  parts[1] = ops::join_columns(builder, convolved, widths);
  return parts;
}

ValueId StateSpacePart::inner(ValueId x, const ShortConvolutionPart::Convolve& convolve,
                              const GatedDeltaPart::ApplyRule& apply) const {
  Layers& layers = parts_.layers();
  Builder& builder = layers.builder();
  const std::vector<ValueId> parts = projected(x);
  const ValueId mixed = convolved(parts[1], convolve);
  const StateDecay decay = append_state_decay(layers, module_, description_, parts[2]);
  const ValueId y = apply(mixed, decay.decay, ops::pointwise::affine(builder, decay.negative_steps, -1));
  return y == kNone ? kNone : gated(parts[0], with_values(y, mixed));
}

LinearLayer StateSpacePart::out_projection() const {
  return {.module = module_ + ".out_proj",
          .in_features = description_.value_width(),
          .out_features = parts_.config().hidden_size,
          .bias = description_.output_bias,
          .takes_adapter = description_.has_adapters,
          .fresh_bound = description_.fresh.output_bound};
}

}  // namespace spillway
