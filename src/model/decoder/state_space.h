// The branch of a layer that keeps a matrix for each head, to which tokens add: Mamba-2's selective state space.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/decoder/gated_delta.h"
#include "model/decoder/layer.h"
#include "model/decoder/parts.h"
#include "model/decoder/short_convolution.h"

namespace spillway {

// Borrows its references.
//
// Source: Transformers are SSMs (Dao and Gu, 2024), as Granite 4's hybrids, Nemotron-H and Falcon-H1 have it.
class StateSpacePart {
 public:
  // `module` is the path of its module, "model.layers.0.mamba".
  StateSpacePart(DecoderParts& parts, const GatedDelta& description, std::string module)
      : parts_(parts), description_(description), module_(std::move(module)) {}

  // Appends all but the last projection and returns what that takes, [T, value_width()], or kNone where `apply` returns
  // it.
  [[nodiscard]] ValueId inner(ValueId x, const ShortConvolutionPart::Convolve& convolve,
                              const GatedDeltaPart::ApplyRule& apply) const;
  // Returns the last projection, whose product joins the stream.
  [[nodiscard]] LinearLayer out_projection() const;

 private:
  [[nodiscard]] ValueId convolved(ValueId x, const ShortConvolutionPart::Convolve& convolve) const;
  [[nodiscard]] ValueId with_values(ValueId y, ValueId convolved) const;
  [[nodiscard]] ValueId norm(ValueId x) const;
  [[nodiscard]] ValueId gated(ValueId gate, ValueId y) const;
  [[nodiscard]] std::vector<ValueId> projected(ValueId x) const;

  DecoderParts& parts_;
  const GatedDelta& description_;
  std::string module_;
};

}  // namespace spillway
