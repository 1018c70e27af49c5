// The branch of a layer that convolves its tokens in place of attending to them.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "model/decoder/layer.h"
#include "model/decoder/parts.h"

namespace spillway {

// Borrows its references.
//
// Source: LFM2, Liquid AI, 2025.
class ShortConvolutionPart {
 public:
  // Appends the convolution of x, [T, channels], by a weight [channels, taps] and a bias [channels] or kNone.
  using Convolve = std::function<ValueId(ValueId x, ValueId weight, ValueId bias)>;

  // `module` is the path of its module, "model.layers.0.conv".
  ShortConvolutionPart(DecoderParts& parts, const ShortConvolution& description, std::string module)
      : parts_(parts), description_(description), module_(std::move(module)) {}

  // Appends all but the last projection and returns what that takes, [T, channels], or kNone where `convolve` returns
  // it.
  [[nodiscard]] ValueId inner(ValueId x, const Convolve& convolve) const;
  // Returns the last projection, whose product joins the stream.
  [[nodiscard]] LinearLayer out_projection() const;

 private:
  DecoderParts& parts_;
  const ShortConvolution& description_;
  std::string module_;
};

// Adds the weights of a depthwise convolution, which files have as [channels, 1, taps], and returns them as [channels,
// taps].
[[nodiscard]] ValueId convolution_weight(Layers& layers, const std::string& module, int64_t channels, int64_t taps);

}  // namespace spillway
