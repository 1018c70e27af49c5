#include "model/decoder/short_convolution.h"

#include <vector>

#include "ops/split_columns/split_columns.h"
#include "ops/swiglu/swiglu.h"

namespace spillway {

ValueId convolution_weight(Layers& layers, const std::string& module, int64_t channels, int64_t taps) {
  Parameter weight = layers.base_parameter(ParameterRole::kConvolution, module, {channels, taps});
  weight.source.shape = {channels, 1, taps};
  return layers.add(std::move(weight)).value();
}

ValueId ShortConvolutionPart::inner(ValueId x, const Convolve& convolve) const {
  Layers& layers = parts_.layers();
  const int64_t channels = description_.channels;
  const LinearLayer in_projection{
      .module = module_ + ".in_proj", .in_features = channels, .out_features = 3 * channels, .bias = description_.bias};
  const std::vector<ValueId> parts =
      ops::split_columns(layers.builder(), layers.linear(in_projection, x), {channels, channels, channels});
  const std::string convolution = module_ + ".conv";
  const ValueId weight = convolution_weight(layers, convolution, channels, description_.taps);
  const ValueId bias = description_.bias ? layers.weight(ParameterRole::kBias, convolution, {channels}) : kNone;
  const ValueId mixed = convolve(ops::bilinear(layers.builder(), parts[0], parts[2]), weight, bias);
  return mixed == kNone ? kNone : ops::bilinear(layers.builder(), parts[1], mixed);
}

LinearLayer ShortConvolutionPart::out_projection() const {
  return {.module = module_ + ".out_proj",
          .in_features = description_.channels,
          .out_features = description_.channels,
          .bias = description_.bias};
}

}  // namespace spillway
