#include "model/decoder/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "model/decoder/feed_forward.h"
#include "ops/add/add.h"
#include "ops/add_expert_bias/add_expert_bias.h"
#include "ops/balance_loss/balance_loss.h"
#include "ops/cast/cast.h"
#include "ops/clamped_swiglu/clamped_swiglu.h"
#include "ops/combine_rows/combine_rows.h"
#include "ops/gather_rows/gather_rows.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/matmul/matmul.h"
#include "ops/pointwise/pointwise.h"
#include "ops/route/route.h"
#include "ops/sort_pairs/sort_pairs.h"
#include "ops/swiglu/swiglu.h"
#include "ops/weigh_rows/weigh_rows.h"

namespace spillway {
namespace {

// Returns how many experts an operation takes where they stream: few, since all of them are in memory at once with
// those that are under way, and enough that a layer has some dozens of operations at most.
int64_t experts_together(const Mixture& mixture) { return std::max<int64_t>(1, mixture.experts / 16); }

// Appends one mixture. All references are borrowed.
class MixtureBuilder {
 public:
  MixtureBuilder(DecoderParts& parts, const Mixture& mixture, const std::string& prefix)
      : parts_(parts), mixture_(mixture), module_(prefix + std::string(mixture.module)) {}

  // Returns residual + the weighted sum of each token's experts. Weights are put on what the last product takes, as
  // the narrower of its sides.
  [[nodiscard]] ValueId experts(ValueId x, ValueId residual) {
    const ValueId logits = router_logits(x);
    const ops::Routes routes = ops::route(builder(), logits, routing());
    const ops::SortedPairs pairs = ops::sort_pairs(builder(), routes.experts, mixture_.experts);
    note_load(logits, pairs);
    const int64_t width = parts_.config().hidden_size;
    const ValueId rows = ops::gather_rows(builder(), x, pairs);
    if (mixture_.fused)
      return ops::combine_rows(builder(), fused_experts(rows, routes.weights, pairs), pairs, residual);
    const ValueId gate = product(mixture_.gate_proj, {mixture_.inner, width}, rows, pairs);
    const ValueId up = product(mixture_.up_proj, {mixture_.inner, width}, rows, pairs);
    const ValueId inner = ops::weigh_rows(builder(), ops::swiglu(builder(), gate, up), routes.weights, pairs);
    return ops::combine_rows(builder(), product(mixture_.down_proj, {width, mixture_.inner}, inner, pairs), pairs,
                             residual);
  }

  // Returns residual + shared_expert(x), with a gate times sigmoid(shared_expert_gate(x)).
  [[nodiscard]] ValueId shared_expert(ValueId x, ValueId residual) {
    const FeedForward description{.inner = mixture_.shared_inner};
    const FeedForwardPart expert(parts_, description, fmt::format("{}.{}", module_, mixture_.shared_expert));
    const ValueId inner = expert.inner(x);
    if (!mixture_.shared_has_gate) return parts_.layers().linear(expert.down_projection(), inner, residual);
    const LinearLayer gate{
        .module = module_ + ".shared_expert_gate", .in_features = parts_.config().hidden_size, .out_features = 1};
    const ValueId logit = ops::cast(builder(), parts_.layers().linear(gate, x), DType::kF32);
    const ValueId weighed = ops::weigh_rows(builder(), inner, ops::pointwise::sigmoid(builder(), logit));
    return parts_.layers().linear(expert.down_projection(), weighed, residual);
  }

 private:
  [[nodiscard]] Builder& builder() { return parts_.layers().builder(); }

  // Logits and all that follows from them are f32.
  [[nodiscard]] ValueId router_logits(ValueId x) {
    const std::string router = fmt::format("{}.{}", module_, mixture_.router);
    const ValueId weight =
        parts_.layers().weight(ParameterRole::kRouter, router, {mixture_.experts, parts_.config().hidden_size});
    const ValueId bias =
        mixture_.fused ? parts_.layers().weight(ParameterRole::kBias, router, {mixture_.experts}) : kNone;
    return ops::matmul(builder(), x, weight, {.transpose_b = true, .bias = bias, .out_dtype = DType::kF32});
  }

  [[nodiscard]] ops::RouteOptions routing() {
    ops::RouteOptions result = mixture_.route;
    if (!mixture_.choice_bias.empty()) {
      const std::string gate = fmt::format("{}.{}", module_, mixture_.router);
      Parameter bias = parts_.layers().named_parameter(
          ParameterRole::kBuffer, fmt::format("{}.{}", gate, mixture_.choice_bias), gate, {mixture_.experts});
      bias.dtype = DType::kF32;
      bias.trained = false;
      result.bias = parts_.layers().add(std::move(bias)).value();
    }
    return result;
  }

  // Returns the rows of pairs that fused experts make of rows, times their weights: the weights come last, since biases
  // count by them, too.
  [[nodiscard]] ValueId fused_experts(ValueId rows, ValueId weights, const ops::SortedPairs& pairs) {
    const int64_t width = parts_.config().hidden_size, inner = mixture_.inner;
    const auto project = [&](std::string_view name, const Shape& shape, ValueId x) {
      const ValueId bias = expert_biases(name, shape[1]);
      return ops::add_expert_bias(builder(), product(name, shape, x, pairs), bias, pairs.offsets);
    };
    const ValueId gate_up = project("gate_up_proj", {width, 2 * inner}, rows);
    const ValueId activated =
        ops::clamped_swiglu(builder(), gate_up, {.alpha = mixture_.fused->alpha, .limit = mixture_.fused->limit});
    return ops::weigh_rows(builder(), project("down_proj", {inner, width}, activated), weights, pairs);
  }

  // Returns the biases of all experts of the layer, [experts, width].
  [[nodiscard]] ValueId expert_biases(std::string_view projection, int64_t width) {
    const std::string module = module_ + ".experts";
    Parameter biases = parts_.layers().named_parameter(
        ParameterRole::kBias, fmt::format("{}.{}_bias", module, projection), module, {mixture_.experts, width});
    return parts_.layers().add(std::move(biases)).value();
  }

  // Notes how evenly experts are used, for what all layers compute together.
  void note_load(ValueId logits, const ops::SortedPairs& pairs) {
    const bool has_loss = parts_.layers().options().router_aux_loss_coef > 0;
    parts_.expert_loads().push_back(
        {has_loss ? ops::router_load(builder(), logits, pairs.offsets) : kNone, pairs.offsets});
  }

  // Returns the products of rows of pairs with their experts' weights, each of `shape`: by one operation, or where
  // experts stream by several, each of which writes its experts' rows into what the ones before it made.
  [[nodiscard]] ValueId product(std::string_view name, const Shape& shape, ValueId rows,
                                const ops::SortedPairs& pairs) {
    const int64_t together = parts_.layers().options().streams_experts ? experts_together(mixture_) : mixture_.experts;
    ValueId result = kNone;
    for (int64_t first = 0; first < mixture_.experts; first += together) {
      std::vector<ValueId> weights;
      for (int64_t expert = first; expert < std::min(first + together, mixture_.experts); ++expert)
        weights.push_back(weight_of(expert, name, shape));
      result =
          ops::grouped_linear(builder(), rows, pairs.offsets, mixture_.route.top_k, weights,
                              {.first_expert = first, .addend = result, .are_in_by_out = mixture_.fused.has_value()});
    }
    return result;
  }

  [[nodiscard]] ValueId weight_of(int64_t expert, std::string_view name, const Shape& shape) {
    const std::string module = fmt::format("{}.experts.{}.{}", module_, expert, name);
    Parameter weight = parts_.layers().base_parameter(ParameterRole::kExpert, module, shape);
    weight.is_meant_by_targets = mixture_.targets_mean_experts;
    if (mixture_.fused) {
      weight.name_in_files = weight.source.name =
          parts_.layers().names().in_files(fmt::format("{}.experts.{}", module_, name));
      weight.source.shape = {mixture_.experts, shape[0], shape[1]};
      weight.slab = expert;
    }
    return parts_.layers().add(std::move(weight)).value();
  }

  DecoderParts& parts_;
  const Mixture& mixture_;
  std::string module_;
};

}  // namespace

ValueId append_mixture(DecoderParts& parts, const Mixture& mixture, const std::string& prefix, ValueId x,
                       ValueId residual) {
  MixtureBuilder builder(parts, mixture, prefix);
  if (mixture.shared_inner > 0) residual = builder.shared_expert(x, residual);
  return builder.experts(x, residual);
}

void append_expert_loads(DecoderParts& parts, ModelGraph& model) {
  Builder& builder = parts.layers().builder();
  const ModelOptions& options = parts.layers().options();
  const std::vector<ExpertLoad>& loads = parts.expert_loads();
  if (loads.empty()) return;
  if (options.router_aux_loss_coef > 0) {
    ValueId pool = loads.front().load;
    for (size_t i = 1; i < loads.size(); ++i) pool = ops::add(builder, pool, loads[i].load);
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
    for (const ExpertLoad& load : loads) largest = ops::largest_load(builder, load.offsets, largest);
    model.metrics.push_back({"expert_load", largest});
  }
}

}  // namespace spillway
