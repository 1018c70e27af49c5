#include "model/decoder/feed_forward.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "ops/activation/activation.h"
#include "ops/scale/scale.h"
#include "ops/split_columns/split_columns.h"
#include "ops/swiglu/swiglu.h"
#include "ops/xielu/xielu.h"

namespace spillway {
namespace {

// The numbers of xIELU in a new model, those that are trained as softplus has them: 0.8 and 0.8 - beta.
constexpr double kBeta = 0.5, kEps = -1e-6;
const double kAlphaP = std::log(std::expm1(0.8)), kAlphaN = std::log(std::expm1(0.8 - kBeta));

}  // namespace

LinearLayer FeedForwardPart::projection(std::string_view name, int64_t in, int64_t out) const {
  return {fmt::format("{}.{}", module_, name), in, out, description_.bias};
}

LinearLayer FeedForwardPart::down_projection() const {
  return projection(description_.down_proj, description_.inner, parts_.config().hidden_size);
}

ValueId FeedForwardPart::activated(ValueId x) const {
  Builder& builder = parts_.layers().builder();
  if (description_.activation == Activation::kReluSquared) return ops::relu_squared(builder, x);
  return ops::xielu(builder, x,
                    {.alpha_p = trained_number("alpha_p", kAlphaP),
                     .alpha_n = trained_number("alpha_n", kAlphaN),
                     .beta = fixed_number("beta", kBeta),
                     .eps = fixed_number("eps", kEps)});
}

ValueId FeedForwardPart::trained_number(std::string_view name, double fresh) const {
  const std::string module = module_ + ".act_fn";
  Parameter number =
      parts_.layers().named_parameter(ParameterRole::kScale, fmt::format("{}.{}", module, name), module, {1});
  number.fresh = FreshContent::kNumber;
  number.fresh_number = fresh;
  return parts_.layers().add(std::move(number)).value();
}

ValueId FeedForwardPart::fixed_number(std::string_view name, double fresh) const {
  const std::string module = module_ + ".act_fn";
  Parameter number = parts_.layers().buffer_parameter(fmt::format("{}.{}", module, name), module, {1});
  number.source.shape = {};
  number.fresh = FreshContent::kNumber;
  number.fresh_number = fresh;
  return parts_.layers().add(std::move(number)).value();
}

ValueId FeedForwardPart::inner(ValueId x) const {
  Builder& builder = parts_.layers().builder();
  const int64_t width = description_.inner;
  const auto project = [&](std::string_view name, int64_t out) {
    return parts_.layers().linear(projection(name, parts_.config().hidden_size, out), x);
  };
  if (!description_.has_gate) return activated(project(description_.up_proj, width));
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
