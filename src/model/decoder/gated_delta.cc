#include "model/decoder/gated_delta.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "model/decoder/short_convolution.h"
#include "ops/activation/activation.h"
#include "ops/add_row/add_row.h"
#include "ops/cast/cast.h"
#include "ops/pointwise/pointwise.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/scale_columns/scale_columns.h"
#include "ops/split_columns/split_columns.h"
#include "ops/swiglu/swiglu.h"

namespace spillway {

namespace {

// Adds a number of each head.
ValueId number_of_heads(Layers& layers, const std::string& module, std::string_view name, const GatedDelta& description,
                        ParameterRole role, FreshContent content, const FreshRange& range) {
  Parameter numbers =
      layers.named_parameter(role, fmt::format("{}.{}", module, name), module, {description.heads.value_heads});
  numbers.fresh = content;
  numbers.fresh_range = range;
  return layers.add(std::move(numbers)).value();
}

ValueId step_bias(Layers& layers, const std::string& module, const GatedDelta& description) {
  const std::optional<FreshStates::Steps>& steps = description.fresh.steps;
  const FreshRange range = steps ? FreshRange{std::log(steps->low), std::log(steps->high), steps->least} : FreshRange{};
  return number_of_heads(layers, module, "dt_bias", description, ParameterRole::kBias,
                         steps ? FreshContent::kSteps : FreshContent::kOnes, range);
}

ValueId log_rates(Layers& layers, const std::string& module, const GatedDelta& description) {
  const bool corrects = description.heads.rule == ops::StateRule::kCorrects;
  return number_of_heads(layers, module, "A_log", description, ParameterRole::kDecay,
                         corrects ? FreshContent::kLogOfUniform : FreshContent::kLogOfCount, {0.01, 16});
}

// Bounds negative steps.
ValueId bounded(Builder& builder, ValueId negative, const StateSteps& steps) {
  if (steps.least > 0) negative = ops::pointwise::min_with(builder, negative, -steps.least);
  return std::isinf(steps.most) ? negative : ops::pointwise::max_with(builder, negative, -steps.most);
}

}  // namespace

StateDecay append_state_decay(Layers& layers, const std::string& module, const GatedDelta& description, ValueId a) {
  namespace pointwise = ops::pointwise;
  Builder& builder = layers.builder();
  const ValueId shifted =
      ops::add_row(builder, ops::cast(builder, a, DType::kF32), step_bias(layers, module, description));
  const ValueId steps = pointwise::log_sigmoid(builder, pointwise::affine(builder, shifted, -1));
  const ValueId negative = bounded(builder, steps, description.steps);
  const ValueId rates =
      pointwise::exp(builder, ops::cast(builder, log_rates(layers, module, description), DType::kF32));
  return {negative, ops::scale_columns(builder, negative, rates)};
}

ValueId GatedDeltaPart::project(std::string_view name, int64_t width, ValueId x) const {
  return parts_.layers().linear({.module = fmt::format("{}.{}", module_, name),
                                 .in_features = parts_.config().hidden_size,
                                 .out_features = width},
                                x);
}

GatedDeltaPart::Projections GatedDeltaPart::project(ValueId x) const {
  const ops::DeltaHeads& heads = description_.heads;
  if (description_.is_by_head) return project_by_head(x);
  const ValueId qkv = project("in_proj_qkv", description_.channels(), x);
  const ValueId z = project("in_proj_z", description_.value_width(), x);
  const ValueId b = project("in_proj_b", heads.value_heads, x);
  return {.qkv = qkv, .z = z, .b = b, .a = project("in_proj_a", heads.value_heads, x)};
}

// Qwen3-Next's projections give for each key head its query, its key, the values and the gates of its value heads; and
// their numbers for beta and for the decay.
GatedDeltaPart::Projections GatedDeltaPart::project_by_head(ValueId x) const {
  const ops::DeltaHeads& heads = description_.heads;
  const int64_t served = heads.value_heads / heads.key_heads, keys = heads.key_dim, values = served * heads.value_dim;
  const ValueId all = project("in_proj_qkvz", description_.channels() + description_.value_width(), x);
  const std::vector<ValueId> sides = ops::split_columns(builder(), all, {2 * keys + values, values}, heads.key_heads);
  const std::vector<ValueId> parts = ops::split_columns(builder(), sides[0], {keys, keys, values}, heads.key_heads);
  const ValueId qkv =
      ops::join_columns(builder(), parts, {heads.key_heads * keys, heads.key_heads * keys, description_.value_width()});
  const std::vector<ValueId> numbers =
      ops::split_columns(builder(), project("in_proj_ba", 2 * heads.value_heads, x), {served, served}, heads.key_heads);
  return {.qkv = qkv, .z = sides[1], .b = numbers[0], .a = numbers[1]};
}

ValueId GatedDeltaPart::inner(ValueId x, const Convolve& convolve, const ApplyRule& apply) const {
  Layers& layers = parts_.layers();
  const Projections projected = project(x);
  const ValueId weight = convolution_weight(layers, module_ + ".conv1d", description_.channels(), description_.taps);
  const ValueId qkv = ops::silu(builder(), convolve(projected.qkv, weight));
  const ValueId beta = ops::pointwise::sigmoid(builder(), ops::cast(builder(), projected.b, DType::kF32));
  const ValueId y = apply(qkv, append_state_decay(layers, module_, description_, projected.a).decay, beta);
  if (y == kNone) return kNone;
  // This norm's weights are what they say, also where others are kept as what they differ from one.
  Parameter norm = layers.base_parameter(ParameterRole::kNorm, module_ + ".norm", {description_.heads.value_dim});
  norm.fresh = FreshContent::kOnes;
  const ValueId weight_of_norm = layers.add(std::move(norm)).value();
  return ops::swiglu(builder(), projected.z, ops::rms_norm(builder(), y, weight_of_norm, parts_.config().norm_eps));
}

LinearLayer GatedDeltaPart::out_projection() const {
  return {.module = module_ + ".out_proj",
          .in_features = description_.value_width(),
          .out_features = parts_.config().hidden_size};
}

}  // namespace spillway
