// The feed-forward of a layer, or of an expert that all tokens share.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "model/decoder/layer.h"
#include "model/decoder/parts.h"

namespace spillway {

// Borrows its references.
class FeedForwardPart {
 public:
  // `module` is the path of its module, "model.layers.0.mlp".
  FeedForwardPart(DecoderParts& parts, const FeedForward& description, std::string module)
      : parts_(parts), description_(description), module_(std::move(module)) {}

  // Appends all but the last projection and returns what that takes, [T, inner].
  [[nodiscard]] ValueId inner(ValueId x) const;
  // Returns the last projection, whose product joins the stream.
  [[nodiscard]] LinearLayer down_projection() const;

 private:
  // Returns the activation of what has no gate.
  [[nodiscard]] ValueId activated(ValueId x) const;
  // Return a number of the activation, f32 [1] if it is not trained. `fresh`: in a new model.
  [[nodiscard]] ValueId trained_number(std::string_view name, double fresh) const;
  [[nodiscard]] ValueId fixed_number(std::string_view name, double fresh) const;
  [[nodiscard]] LinearLayer projection(std::string_view name, int64_t in, int64_t out) const;

  DecoderParts& parts_;
  const FeedForward& description_;
  std::string module_;
};

}  // namespace spillway
