#include "model/decoder/mixture_config.h"

#include <set>

#include "base/error.h"
#include "base/index.h"
#include "ops/route/route.h"

namespace spillway {
namespace {

constexpr int64_t kMaxInner = int64_t{1} << 20;
constexpr double kMaxCoefficient = 1e6;

}  // namespace

Mixture read_mixture(const JsonField& json, std::string_view inner_key) {
  constexpr std::string_view kExperts = "num_experts", kLocalExperts = "num_local_experts";
  const std::string_view experts_key = json.has(kLocalExperts) && !json.has(kExperts) ? kLocalExperts : kExperts;
  Mixture mixture;
  mixture.experts = json[experts_key].integer(1, ops::kMaxExperts);
  mixture.top_k = json["num_experts_per_tok"].integer(1, ops::kMaxExperts);
  mixture.inner = json[inner_key].integer(1, kMaxInner);
  if (mixture.top_k <= mixture.experts) return mixture;
  throw input_error(json.where(), "expected num_experts_per_tok of at most {} = {}, got {}; check both numbers",
                    experts_key, mixture.experts, mixture.top_k);
}

void set_mixtures(const Mixture& mixture, DecoderConfig& config) {
  for (DecoderLayer& layer : config.layers) layer.mixture = mixture;
}

void set_mixtures_by_step(const JsonField& json, const Mixture& mixture, DecoderConfig& config) {
  const auto layers = std::ssize(config.layers);
  const int64_t step = json["decoder_sparse_step"].integer_or(1, 1, ops::kMaxExperts);
  std::set<int64_t> dense;
  if (const JsonField listed = json["mlp_only_layers"]; !listed.is_null()) {
    for (const JsonField& layer : listed.elements()) dense.insert(layer.integer(0, layers - 1));
  }
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (!dense.contains(layer) && (layer + 1) % step == 0) nth(config.layers, layer).mixture = mixture;
  }
}

void read_router_training(const JsonField& json, double missing, DecoderConfig& config) {
  note_dropout(json, "router_jitter_noise", config);
  const double coefficient = json["router_aux_loss_coef"].real_or(missing, 0, kMaxCoefficient);
  config.router_aux_loss_coef = json["output_router_logits"].boolean_or(false) ? coefficient : 0;
}

}  // namespace spillway
