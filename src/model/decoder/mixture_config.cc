#include "model/decoder/mixture_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "ops/route/route.h"

namespace spillway {
namespace {

constexpr int64_t kMaxInner = int64_t{1} << 20;
constexpr double kMaxCoefficient = 1e6, kMinRouteScale = 1e-6, kMaxRouteScale = 1e6;

// Returns the key of the number of experts.
std::string_view experts_key_of(const JsonField& json) {
  constexpr std::string_view kKeys[] = {"num_experts", "num_local_experts", "n_routed_experts"};
  const auto* const found = std::find_if(std::begin(kKeys), std::end(kKeys), [&](auto key) { return json.has(key); });
  return found == std::end(kKeys) ? kKeys[0] : *found;
}

// Throws InputError for groups in which there are no such choices.
void check_groups(const JsonField& json, const Mixture& mixture) {
  const ops::RouteOptions& route = mixture.route;
  const auto check = [&](bool is_right, std::string_view expected, int64_t got) {
    if (!is_right) throw input_error(json.where(), "expected {}, got {}; check both numbers", expected, got);
  };
  check(mixture.experts % route.groups == 0,
        fmt::format("n_group to divide {} = {}", experts_key_of(json), mixture.experts), route.groups);
  const int64_t size = mixture.experts / route.groups;
  check(size >= route.best_of_group,
        fmt::format("groups of at least {} experts, whose scores make a group's", route.best_of_group), size);
  check(route.top_groups <= route.groups, fmt::format("topk_group of at most n_group = {}", route.groups),
        route.top_groups);
  check(route.top_k <= route.top_groups * size,
        fmt::format("num_experts_per_tok of at most the {} experts of topk_group groups", route.top_groups * size),
        route.top_k);
}

}  // namespace

Mixture read_mixture(const JsonField& json, std::string_view inner_key, std::string_view chosen_key) {
  const std::string_view experts_key = experts_key_of(json);
  Mixture mixture;
  mixture.experts = json[experts_key].integer(1, ops::kMaxExperts);
  mixture.route.top_k = json[chosen_key].integer(1, ops::kMaxExperts);
  mixture.inner = json[inner_key].integer(1, kMaxInner);
  if (mixture.route.top_k <= mixture.experts) return mixture;
  throw input_error(json.where(), "expected {} of at most {} = {}, got {}; check both numbers", chosen_key, experts_key,
                    mixture.experts, mixture.route.top_k);
}

void read_route_scale(const JsonField& json, Mixture& mixture, std::string_view key) {
  mixture.route.scale = json[key].real_or(1, kMinRouteScale, kMaxRouteScale);
}

void read_route_groups(const JsonField& json, int64_t best_of_group, Mixture& mixture) {
  mixture.route.groups = json["n_group"].integer_or(1, 1, ops::kMaxExperts);
  mixture.route.top_groups = json["topk_group"].integer_or(1, 1, ops::kMaxExperts);
  mixture.route.best_of_group = best_of_group;
  check_groups(json, mixture);
}

void read_shared_experts(const JsonField& json, Mixture& mixture, std::string_view key, int64_t missing) {
  mixture.shared_inner = mixture.inner * json[key].integer_or(missing, 0, ops::kMaxExperts);
  mixture.shared_expert = "shared_experts";
}

Mixture read_grouped_mixture(const JsonField& json) {
  Mixture mixture = read_mixture(json, "moe_intermediate_size");
  ops::RouteOptions& route = mixture.route;
  route.score = ops::RouteScore::kSigmoid;
  route.normalises = json["norm_topk_prob"].boolean_or(true);
  route.epsilon = route.normalises ? 1e-20 : 0;
  read_route_scale(json, mixture);
  read_route_groups(json, 2, mixture);
  read_shared_experts(json, mixture);
  mixture.choice_bias = "gate.e_score_correction_bias";
  return mixture;
}

void set_mixtures(const Mixture& mixture, DecoderConfig& config) {
  for (DecoderLayer& layer : config.layers) layer.replace_feed_forward(mixture);
}

void set_mixtures_by_step(const JsonField& json, const Mixture& mixture, DecoderConfig& config) {
  const auto layers = std::ssize(config.layers);
  const int64_t step = json["decoder_sparse_step"].integer_or(1, 1, ops::kMaxExperts);
  std::set<int64_t> dense;
  if (const JsonField listed = json["mlp_only_layers"]; !listed.is_null()) {
    for (const JsonField& layer : listed.elements()) dense.insert(layer.integer(0, layers - 1));
  }
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (!dense.contains(layer) && (layer + 1) % step == 0) nth(config.layers, layer).replace_feed_forward(mixture);
  }
}

void set_mixtures_behind_dense(const JsonField& json, const Mixture& mixture, DecoderConfig& config,
                               std::string_view key, int64_t missing) {
  const auto layers = std::ssize(config.layers);
  for (int64_t layer = json[key].integer_or(std::min<int64_t>(missing, layers), 0, layers); layer < layers; ++layer)
    nth(config.layers, layer).replace_feed_forward(mixture);
}

void read_router_training(const JsonField& json, double missing, DecoderConfig& config) {
  note_dropout(json, "router_jitter_noise", config);
  config.named_router_coef = json["router_aux_loss_coef"].real_or(missing, 0, kMaxCoefficient);
  config.router_aux_loss_coef = json["output_router_logits"].boolean_or(false) ? config.named_router_coef : 0;
}

}  // namespace spillway
