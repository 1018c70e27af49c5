#include "model/decoder/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/decoder/feed_forward.h"
#include "ops/activation/activation.h"
#include "ops/add/add.h"
#include "ops/add_expert_bias/add_expert_bias.h"
#include "ops/balance_loss/balance_loss.h"
#include "ops/cast/cast.h"
#include "ops/clamped_swiglu/clamped_swiglu.h"
#include "ops/collectives/sum_over_ranks/sum_over_ranks.h"
#include "ops/combine_rows/combine_rows.h"
#include "ops/gather_rows/gather_rows.h"
#include "ops/grouped_factor/grouped_factor.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/matmul/matmul.h"
#include "ops/pointwise/pointwise.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/route/route.h"
#include "ops/scale/scale.h"
#include "ops/sort_pairs/sort_pairs.h"
#include "ops/split_columns/split_columns.h"
#include "ops/swiglu/swiglu.h"
#include "ops/weigh_rows/weigh_rows.h"
#include "ops/zero/zero.h"

namespace spillway {
namespace {

// Returns how many experts an operation takes where they stream: few, since all of them are in memory at once with
// those that are under way, and enough that a layer has some dozens of operations at most.
int64_t experts_together(const Mixture& mixture) { return std::max<int64_t>(1, mixture.experts / 16); }

// Appends one mixture. All references are borrowed.
class MixtureBuilder {
 public:
  MixtureBuilder(DecoderParts& parts, const Mixture& mixture, const std::string& prefix)
      : parts_(parts),
        mixture_(mixture),
        width_(mixture.latent > 0 ? mixture.latent : parts.config().hidden_size),
        module_(module_prefix(prefix, mixture.module)),
        tensors_(parts.layers().names().path(module_prefix(prefix, mixture.transformers_module))) {}

  // Returns residual + the weighted sum of each token's experts, or what latent projections make of it. Weights are put
  // on what the last product takes, as the narrower of its sides.
  [[nodiscard]] ValueId experts(const MixtureInputs& inputs, ValueId residual) {
    const ValueId logits = router_logits(inputs.router);
    const ops::Routes routes = ops::route(builder(), logits, routing());
    const ops::SortedPairs pairs = ops::sort_pairs(builder(), routes.experts, mixture_.experts);
    note_load(logits, pairs);
    if (mixture_.latent == 0) {
      const ValueId rows = ops::gather_rows(builder(), inputs.experts, pairs);
      return ops::combine_rows(builder(), expert_rows(rows, routes.weights, pairs), pairs, residual);
    }
    const int64_t hidden = parts_.config().hidden_size;
    const ValueId latent = parts_.layers().linear(latent_projection("fc1", hidden, width_), inputs.experts);
    const ValueId rows = ops::gather_rows(builder(), latent, pairs);
    const ValueId sums = ops::combine_rows(builder(), expert_rows(rows, routes.weights, pairs), pairs, kNone);
    return parts_.layers().linear(latent_projection("fc2", width_, hidden), sums, residual);
  }

  // Returns residual + shared_expert(x), with a gate times sigmoid(shared_expert_gate(x)).
  [[nodiscard]] ValueId shared_expert(ValueId x, ValueId residual) {
    const FeedForward description{.inner = mixture_.shared_inner,
                                  .activation = mixture_.activation,
                                  .has_gate = mixture_.has_gate,
                                  .bias = mixture_.bias};
    const FeedForwardPart expert(parts_, description, module_ + std::string(mixture_.shared_expert));
    const ValueId inner = expert.inner(x);
    if (!mixture_.shared_has_gate) return parts_.layers().linear(expert.down_projection(), inner, residual);
    const LinearLayer gate{
        .module = module_ + "shared_expert_gate", .in_features = parts_.config().hidden_size, .out_features = 1};
    const ValueId logit = ops::cast(builder(), parts_.layers().linear(gate, x), DType::kF32);
    const ValueId weighed = ops::weigh_rows(builder(), inner, ops::pointwise::sigmoid(builder(), logit));
    return parts_.layers().linear(expert.down_projection(), weighed, residual);
  }

 private:
  // An adapter on the experts' products of some rows.
  struct Adapter {
    MixtureTensor tensor;
    Layers::Factors factors;
    ValueId low = kNone;  // the rows' products with A; kNone: there is no adapter
  };

  [[nodiscard]] Builder& builder() { return parts_.layers().builder(); }

  // Returns what the names of the mixture's modules begin with.
  static std::string module_prefix(const std::string& prefix, std::string_view module) {
    return module.empty() ? prefix : fmt::format("{}{}.", prefix, module);
  }

  // Adds a vector of the router's.
  [[nodiscard]] ValueId router_vector(std::string_view name, const Shape& shape, int64_t elems) {
    const std::string path = module_ + std::string(name);
    Parameter vector =
        parts_.layers().named_parameter(ParameterRole::kScale, path, path.substr(0, path.rfind('.')), shape);
    vector.source.shape = {elems};
    return parts_.layers().add(std::move(vector)).value();
  }

  [[nodiscard]] LinearLayer latent_projection(std::string_view name, int64_t in, int64_t out) const {
    return {fmt::format("{}{}_latent_proj", module_, name), in, out, mixture_.bias};
  }

  // Returns the rows of pairs that experts make of rows, times their weights.
  [[nodiscard]] ValueId expert_rows(ValueId rows, ValueId weights, const ops::SortedPairs& pairs) {
    if (mixture_.fused) return fused_experts(rows, weights, pairs);
    const ValueId activated = scaled_by_expert(activated_rows(rows, pairs), weights, pairs);
    const ValueId inner = ops::weigh_rows(builder(), activated, weights, pairs);
    const Shape shape = {width_, mixture_.inner};
    const Adapter adapted = adapter(experts_tensor("down_proj", shape), inner, pairs);
    return product(mixture_.stacked ? "down_proj" : mixture_.down_proj, shape, inner, pairs, adapted);
  }

  // Returns activation(gate) * up of the rows of pairs, or activation(up).
  [[nodiscard]] ValueId activated_rows(ValueId rows, const ops::SortedPairs& pairs) {
    const int64_t width = width_, inner = mixture_.inner;
    if (!mixture_.has_gate) {
      const Adapter adapted = adapter(experts_tensor("up_proj", {inner, width}), rows, pairs);
      return ops::relu_squared(builder(), product(mixture_.up_proj, {inner, width}, rows, pairs, adapted));
    }
    const Adapter adapted = adapter(experts_tensor("gate_up_proj", {2 * inner, width}), rows, pairs);
    const auto gated = mixture_.activation == Activation::kSilu ? ops::swiglu : ops::geglu;
    if (mixture_.stacked) {
      const ValueId both = product("gate_up_proj", {2 * inner, width}, rows, pairs, adapted);
      const std::vector<ValueId> halves = ops::split_columns(builder(), both, {inner, inner}, mixture_.route.top_k);
      return gated(builder(), halves[0], halves[1]);
    }
    const ValueId gate = product(mixture_.gate_proj, {inner, width}, rows, pairs, adapted);
    return gated(builder(), gate, product(mixture_.up_proj, {inner, width}, rows, pairs, adapted, inner));
  }

  // Returns the rows of pairs, each times the number of its expert, if experts have such numbers.
  [[nodiscard]] ValueId scaled_by_expert(ValueId rows, ValueId weights, const ops::SortedPairs& pairs) {
    if (!mixture_.router_scales) return rows;
    const ValueId scales = router_vector(mixture_.router_scales->experts, {mixture_.experts, 1}, mixture_.experts);
    const ValueId zeros = ops::zero(builder(), ops::pointwise::detach(builder(), weights));
    return ops::weigh_rows(builder(), rows, ops::add_expert_bias(builder(), zeros, scales, pairs.offsets));
  }

  // Returns the logits of a router that is a linear layer: of the rows, or of the normalised and scaled ones.
  [[nodiscard]] ValueId linear_router_logits(ValueId x) {
    const int64_t width = parts_.config().hidden_size;
    if (mixture_.router_scales) {
      const ValueId scale = router_vector(mixture_.router_scales->input, {width}, width);
      x = ops::rms_norm(builder(), x, scale, parts_.config().norm_eps);
      x = ops::scale(builder(), x, 1 / std::sqrt(static_cast<double>(width)));
    }
    const LinearLayer router{.module = module_ + std::string(mixture_.router),
                             .in_features = width,
                             .out_features = mixture_.experts,
                             .starts_as_zeros = mixture_.router_starts_as_zeros,
                             .tensor = router_tensor()};
    Layers& layers = parts_.layers();
    const ValueId logits = ops::cast(builder(), layers.linear(router, x), DType::kF32);
    const ValueId update = router_update(router.tensor, x);
    return update == kNone ? logits : ops::add(builder(), logits, update);
  }

  // A linear router has no older name: PEFT finds its module, too.
  [[nodiscard]] MixtureTensor router_tensor() const {
    const std::string_view name = mixture_.transformers_router.empty() ? mixture_.router : mixture_.transformers_router;
    return {.name = fmt::format("{}{}.weight", tensors_, name),
            .shape = {mixture_.experts, parts_.config().hidden_size},
            .has_old_name = mixture_.targets_mean_experts && !mixture_.router_is_linear};
  }

  // Returns what the factors of the router's tensor add to its logits, in f32; kNone where it has none.
  [[nodiscard]] ValueId router_update(const MixtureTensor& tensor, ValueId x) {
    const Layers::Factors factors = parts_.layers().factors(tensor);
    if (factors.a == kNone) return kNone;
    return ops::matmul(builder(), ops::linear(builder(), x, factors.a), factors.b,
                       {.transpose_b = true, .alpha = factors.scale, .out_dtype = DType::kF32});
  }

  [[nodiscard]] MixtureTensor experts_tensor(std::string_view name, const Shape& shape) const {
    return {.name = fmt::format("{}experts.{}", tensors_, name),
            .shape = shape,
            .experts = mixture_.experts,
            .has_old_name = mixture_.targets_mean_experts,
            .is_in_by_out = mixture_.fused.has_value()};
  }

  // Logits and all that follows from them are f32.
  [[nodiscard]] ValueId router_logits(ValueId x) {
    if (mixture_.router_is_linear) return linear_router_logits(x);
    Layers& layers = parts_.layers();
    const std::string router = module_ + std::string(mixture_.router);
    const MixtureTensor tensor = router_tensor();
    Parameter weight = layers.base_parameter(ParameterRole::kRouter, router, tensor.shape);
    weight.tensor = tensor;
    if (mixture_.router_starts_as_zeros) weight.fresh = FreshContent::kZeros;
    if (mixture_.router_is_f32) weight.dtype = DType::kF32;
    const ValueId w = layers.add(std::move(weight)).value();
    ops::MatmulOptions options{.transpose_b = true, .out_dtype = DType::kF32};
    if (mixture_.fused) options.bias = layers.weight(ParameterRole::kBias, router, {mixture_.experts});
    options.addend = router_update(tensor, x);
    return ops::matmul(builder(), mixture_.router_is_f32 ? ops::cast(builder(), x, DType::kF32) : x, w, options);
  }

  [[nodiscard]] ops::RouteOptions routing() {
    ops::RouteOptions result = mixture_.route;
    if (!mixture_.choice_bias.empty()) {
      const std::string path = module_ + std::string(mixture_.choice_bias);
      result.bias = parts_.layers().buffer(path, path.substr(0, path.rfind('.')), {mixture_.experts});
    }
    return result;
  }

  // Returns the rows of pairs that fused experts make of rows, times their weights: the weights come last, since biases
  // count by them, too.
  [[nodiscard]] ValueId fused_experts(ValueId rows, ValueId weights, const ops::SortedPairs& pairs) {
    const int64_t width = width_, inner = mixture_.inner;
    const auto project = [&](std::string_view name, const Shape& shape, ValueId x) {
      const ValueId bias = expert_biases(name, shape[1]);
      const Adapter adapted = adapter(experts_tensor(name, {shape[1], shape[0]}), x, pairs);
      return ops::add_expert_bias(builder(), product(name, shape, x, pairs, adapted), bias, pairs.offsets);
    };
    const ValueId gate_up = project("gate_up_proj", {width, 2 * inner}, rows);
    const ValueId activated =
        ops::clamped_swiglu(builder(), gate_up, {.alpha = mixture_.fused->alpha, .limit = mixture_.fused->limit});
    return ops::weigh_rows(builder(), project("down_proj", {inner, width}, activated), weights, pairs);
  }

  // Returns the biases of all experts of the layer, [experts, width].
  [[nodiscard]] ValueId expert_biases(std::string_view projection, int64_t width) {
    const std::string module = module_ + "experts";
    Parameter biases = parts_.layers().named_parameter(
        ParameterRole::kBias, fmt::format("{}.{}_bias", module, projection), module, {mixture_.experts, width});
    return parts_.layers().add(std::move(biases)).value();
  }

  // Notes how evenly experts are used, for what all layers compute together. The loss of transformers counts the
  // experts that the logits alone would choose, which are others where a bias chooses, too.
  void note_load(ValueId logits, const ops::SortedPairs& pairs) {
    const ValueId use = use_of(logits, pairs);
    if (parts_.layers().options().router_aux_loss_coef == 0) {
      parts_.expert_loads().push_back({kNone, use});
      return;
    }
    ops::SortedPairs counted = pairs;
    if (!mixture_.choice_bias.empty()) {
      const ops::Routes by_logits = ops::route(builder(), logits, {.top_k = mixture_.route.top_k});
      counted = ops::sort_pairs(builder(), by_logits.experts, mixture_.experts);
    }
    const ValueId load = ops::router_load(builder(), logits, counted, parts_.own_offsets());
    parts_.expert_loads().push_back({load, use});
  }

  // Returns the pairs of each expert: those of all ranks that share the stream, without rows behind its last token.
  [[nodiscard]] ValueId use_of(ValueId logits, const ops::SortedPairs& pairs) {
    const ModelOptions& options = parts_.layers().options();
    if (parts_.own_offsets() == kNone || !options.reports_expert_load) return pairs.offsets;
    const ValueId own = ops::router_load(builder(), logits, pairs, parts_.own_offsets());
    return ops::sum_over_ranks(builder(), own, options.context_ranks);
  }

  [[nodiscard]] Adapter adapter(MixtureTensor tensor, ValueId rows, const ops::SortedPairs& pairs) {
    Adapter result{.tensor = std::move(tensor)};
    result.factors = parts_.layers().factors(result.tensor);
    if (result.factors.a != kNone)
      result.low = ops::grouped_factor_a(builder(), rows, pairs.offsets, mixture_.route.top_k, result.factors.a);
    return result;
  }

  // Returns the products of rows of pairs with their experts' weights, each of `shape`, [out, in], or of fused experts
  // [in, out], and with the adapter's update
  // of these, which are rows [first_row, ...) of the adapter's tensor: by one operation, or where experts stream by
  // several, each of which adds its experts' rows to what the ones before it made.
  [[nodiscard]] ValueId product(std::string_view name, const Shape& shape, ValueId rows, const ops::SortedPairs& pairs,
                                const Adapter& adapter, int64_t first_row = 0) {
    const int64_t together = parts_.layers().options().streams_experts ? experts_together(mixture_) : mixture_.experts;
    ValueId result = kNone;
    if (adapter.low != kNone)
      result =
          ops::grouped_factor_b(builder(), adapter.low, pairs.offsets, mixture_.route.top_k, adapter.factors.b,
                                {.first = first_row, .count = shape[mixture_.fused ? 1 : 0]}, adapter.factors.scale);
    MixtureTensor tensor = adapter.tensor;
    tensor.first_row = first_row;
    for (int64_t first = 0; first < mixture_.experts; first += together) {
      Parameter weight;  // of the last of these experts; they are alike
      std::vector<ValueId> parts;
      for (int64_t expert = first; expert < std::min(first + together, mixture_.experts); ++expert) {
        tensor.expert = expert;
        weight = add_weight(tensor, name, shape);
        parts.insert(parts.end(), weight.values.begin(), weight.values.end());
      }
      result = weight.storage->grouped_linear(
          builder(), rows, pairs.offsets, mixture_.route.top_k, weight.spec(), parts,
          {.first_expert = first, .addend = result, .are_in_by_out = mixture_.fused.has_value()});
    }
    return result;
  }

  [[nodiscard]] const Parameter& add_weight(const MixtureTensor& tensor, std::string_view name, const Shape& shape) {
    Layers& layers = parts_.layers();
    const std::string module = module_ + "experts";
    Parameter weight =
        layers.base_parameter(ParameterRole::kExpert, fmt::format("{}.{}.{}", module, tensor.expert, name), shape);
    const std::optional<LinearStorage>& storage = layers.options().linear_storage;
    weight.tensor = tensor;
    weight.source.storage = layers.in_files().of_experts(layers.names().in_files(module));
    if (!weight.trained)
      weight.storage = storage ? storage->of_experts(layers.names().path(module)) : weight.source.storage;
    if (!mixture_.fused && !mixture_.stacked) return layers.add(std::move(weight));
    std::string stack = fmt::format("{}.{}", module, name);
    if (mixture_.stacked)
      stack = fmt::format("{}{}", module_,
                          name == "down_proj" ? mixture_.stacked->down_proj : mixture_.stacked->gate_up_proj);
    weight.name_in_files = weight.source.name = layers.names().in_files(stack);
    weight.source.shape = {mixture_.experts, shape[0], shape[1]};
    weight.slab = tensor.expert;
    return layers.add(std::move(weight));
  }

  DecoderParts& parts_;
  const Mixture& mixture_;
  int64_t width_;        // of what experts read and give
  std::string module_;   // what the names of its modules begin with
  std::string tensors_;  // the same in transformers
};

}  // namespace

ValueId append_mixture(DecoderParts& parts, const Mixture& mixture, const std::string& prefix,
                       const MixtureInputs& inputs, ValueId residual) {
  MixtureBuilder builder(parts, mixture, prefix);
  if (mixture.shared_inner > 0) residual = builder.shared_expert(inputs.experts, residual);
  return builder.experts(inputs, residual);
}

void append_expert_loads(DecoderParts& parts, ModelGraph& model) {
  Builder& builder = parts.layers().builder();
  const ModelOptions& options = parts.layers().options();
  const std::vector<ExpertLoad>& loads = parts.expert_loads();
  if (loads.empty()) return;
  if (options.router_aux_loss_coef > 0) {
    ValueId pool = loads.front().load;
    for (size_t i = 1; i < loads.size(); ++i) pool = ops::add(builder, pool, loads[i].load);
    if (options.context_ranks > 1) pool = ops::sum_over_ranks(builder, pool, options.context_ranks);
    ModelLoss& loss = model.router_loss.emplace();
    loss.weight = builder.input("batch.router_loss_weight", {DType::kF32, {1}}, ValueKind::kBatch);
    const auto& layers = parts.config().layers;
    const auto mixed = std::find_if(layers.begin(), layers.end(), [](const DecoderLayer& l) { return l.mixture; });
    const ops::BalanceLoss balance = ops::balance_loss(builder, pool, mixed->mixture->route.top_k, loss.weight);
    loss.weighted = balance.weighted;
    model.metrics.push_back({"aux_loss", balance.loss});
  }
  if (options.reports_expert_load) {
    ValueId largest = kNone;
    for (const ExpertLoad& load : loads) largest = ops::largest_load(builder, load.use, largest);
    model.metrics.push_back({"expert_load", largest});
    ValueId reached = kNone;
    for (const ExpertLoad& load : loads) reached = ops::reached_experts(builder, load.use, reached);
    model.metrics.push_back({kExpertsReached, reached, /*is_count=*/true});
  }
}

}  // namespace spillway
