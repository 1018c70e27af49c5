#include "model/decoder/selective_scan.h"

#include <fmt/format.h>

#include <vector>

#include "ops/activation/activation.h"
#include "ops/cast/cast.h"
#include "ops/pointwise/pointwise.h"
#include "ops/scale_columns/scale_columns.h"
#include "ops/split_columns/split_columns.h"
#include "ops/swiglu/swiglu.h"

namespace spillway {

ValueId SelectiveScanPart::convolved(ValueId x, const ShortConvolutionPart::Convolve& convolve) const {
  Layers& layers = parts_.layers();
  const std::string module = module_ + ".conv1d";
  const ValueId weight = convolution_weight(layers, module, description_.channels, description_.taps);
  const ValueId bias =
      description_.conv_bias ? layers.weight(ParameterRole::kBias, module, {description_.channels}) : kNone;
  return ops::silu(builder(), convolve(x, weight, bias));
}

// Returns rows of `width` numbers, normalised where the model has such norms.
ValueId SelectiveScanPart::normalised(ValueId x, std::string_view name, int64_t width) const {
  return description_.has_norms ? parts_.norm(x, fmt::format("{}.{}", module_, name), width) : x;
}

// Returns what the scan reads of convolved rows.
ops::ScanOperands SelectiveScanPart::operands(ValueId x) const {
  const int64_t rank = description_.step_rank, state = description_.state;
  const LinearLayer of_x{
      .module = module_ + ".x_proj", .in_features = description_.channels, .out_features = rank + 2 * state};
  const std::vector<ValueId> parts =
      ops::split_columns(builder(), parts_.layers().linear(of_x, x), {rank, state, state});
  // Transformers multiplies by the weight without calling the module, so that an adapter there does nothing.
  const LinearLayer of_steps{.module = module_ + ".dt_proj",
                             .in_features = rank,
                             .out_features = description_.channels,
                             .bias = true,
                             .takes_adapter = false};
  const ValueId low = normalised(parts[0], "dt_layernorm", rank);
  const ValueId b = normalised(parts[1], "b_layernorm", state), c = normalised(parts[2], "c_layernorm", state);
  return {.x = x, .steps = parts_.layers().linear(of_steps, low), .rates = rates(), .b = b, .c = c};
}

ValueId SelectiveScanPart::rates() const {
  Parameter logs = parts_.layers().named_parameter(ParameterRole::kDecay, module_ + ".A_log", module_,
                                                   {description_.channels, description_.state});
  logs.fresh = FreshContent::kLogOfCount;
  return ops::pointwise::exp(builder(),
                             ops::cast(builder(), parts_.layers().add(std::move(logs)).value(), DType::kF32));
}

// Returns y + D x, where D has a number for each channel.
ValueId SelectiveScanPart::with_input(ValueId y, ValueId x) const {
  Layers& layers = parts_.layers();
  Parameter numbers = layers.named_parameter(ParameterRole::kScale, module_ + ".D", module_, {description_.channels});
  const ValueId factors = ops::cast(builder(), layers.add(std::move(numbers)).value(), DType::kF32);
  return ops::scale_columns(builder(), x, factors, {.addend = y});
}

ValueId SelectiveScanPart::inner(ValueId x, const ShortConvolutionPart::Convolve& convolve, const Scan& scan) const {
  const int64_t channels = description_.channels;
  const LinearLayer in_projection{.module = module_ + ".in_proj",
                                  .in_features = parts_.config().hidden_size,
                                  .out_features = 2 * channels,
                                  .bias = description_.bias};
  const std::vector<ValueId> parts =
      ops::split_columns(builder(), parts_.layers().linear(in_projection, x), {channels, channels});
  const ValueId mixed = convolved(parts[0], convolve);
  const ValueId y = scan(operands(mixed));
  return y == kNone ? kNone : ops::swiglu(builder(), parts[1], with_input(y, mixed));
}

LinearLayer SelectiveScanPart::out_projection() const {
  return {.module = module_ + ".out_proj",
          .in_features = description_.channels,
          .out_features = parts_.config().hidden_size,
          .bias = description_.bias};
}

}  // namespace spillway
