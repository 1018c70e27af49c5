// Reads what the keys of a config.json say of the mixtures of a model's layers.
#pragma once

#include <string_view>

#include "base/json_field.h"
#include "model/decoder/config.h"
#include "model/decoder/layer.h"

namespace spillway {

// Reads the numbers of a mixture: the experts by num_experts, num_local_experts or n_routed_experts, those of a token
// by `chosen_key`, and their width by `inner_key`. Throws InputError for more experts of a token than there are.
[[nodiscard]] Mixture read_mixture(const JsonField& json, std::string_view inner_key,
                                   std::string_view chosen_key = "num_experts_per_tok");

// Read the scale of weights, the groups of neighbours in which a token's experts are chosen, of which as many of the
// best as `best_of_group` make a group's score, and the experts that all tokens share as one. The second throws
// InputError for groups that do not divide the experts, or that have too few for a token.
void read_route_scale(const JsonField& json, Mixture& mixture, std::string_view key = "routed_scaling_factor");
void read_route_groups(const JsonField& json, int64_t best_of_group, Mixture& mixture);
void read_shared_experts(const JsonField& json, Mixture& mixture, std::string_view key = "n_shared_experts",
                         int64_t missing = 1);

// Reads a mixture whose router scores each expert by itself and chooses within groups of neighbours, with the experts
// that all tokens share as one (DeepSeek V3, GLM-4.5). Throws InputError for groups that do not divide the experts, or
// that have too few for a token.
[[nodiscard]] Mixture read_grouped_mixture(const JsonField& json);

// Gives all layers a mixture.
void set_mixtures(const Mixture& mixture, DecoderConfig& config);

// Gives one to every decoder_sparse_step-th layer but to those of mlp_only_layers (Qwen).
void set_mixtures_by_step(const JsonField& json, const Mixture& mixture, DecoderConfig& config);

// Gives one to all layers but the first, which are as many as `key` says, `missing` where the file leaves it out.
void set_mixtures_behind_dense(const JsonField& json, const Mixture& mixture, DecoderConfig& config,
                               std::string_view key = "first_k_dense_replace", int64_t missing = 1);

// transformers' coefficient of the load-balancing loss, where a file leaves it out, of all but OLMoE.
inline constexpr double kRouterAuxLossCoef = 0.001;

// Reads the coefficient of the load-balancing loss, `missing` where the file leaves it out, and notes in `config` what
// of a router's training is not computed here: noise on what it reads.
void read_router_training(const JsonField& json, double missing, DecoderConfig& config);

}  // namespace spillway
