#include "model/decoder/feed_forward.h"

#include <fmt/format.h>

#include <vector>

#include "ops/activation/activation.h"
#include "ops/scale/scale.h"
#include "ops/split_columns/split_columns.h"
#include "ops/swiglu/swiglu.h"

namespace spillway {

LinearLayer FeedForwardPart::projection(std::string_view name, int64_t in, int64_t out) const {
  return {fmt::format("{}.{}", module_, name), in, out, description_.bias};
}

LinearLayer FeedForwardPart::down_projection() const {
  return projection(description_.down_proj, description_.inner, parts_.config().hidden_size);
}

ValueId FeedForwardPart::inner(ValueId x) const {
  Builder& builder = parts_.layers().builder();
  const int64_t width = description_.inner;
  const auto project = [&](std::string_view name, int64_t out) {
    return parts_.layers().linear(projection(name, parts_.config().hidden_size, out), x);
  };
  if (!description_.has_gate) return ops::relu_squared(builder, project(description_.up_proj, width));
  const auto gated = description_.activation == Activation::kSilu ? ops::swiglu : ops::geglu;
  const auto scaled = [&](ValueId gate) { return ops::scale(builder, gate, description_.gate_scale); };
  if (!description_.is_fused) {
    const ValueId gate = scaled(project(description_.gate_proj, width));
    return gated(builder, gate, project(description_.up_proj, width));
  }
  const std::vector<ValueId> parts =
      ops::split_columns(builder, project(description_.fused_proj, 2 * width), {width, width});
  return gated(builder, scaled(parts[0]), parts[1]);
}

}  // namespace spillway
