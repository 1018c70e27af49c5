// Reads what the keys of a config.json say of the mixtures of a model's layers.
#pragma once

#include <string_view>

#include "base/json_field.h"
#include "model/decoder/config.h"
#include "model/decoder/layer.h"

namespace spillway {

// Reads the numbers of a mixture: the experts by num_experts or num_local_experts, those of a token by
// num_experts_per_tok, and their width by `inner_key`. Throws InputError for more experts of a token than there are.
[[nodiscard]] Mixture read_mixture(const JsonField& json, std::string_view inner_key);

// Gives all layers a mixture.
void set_mixtures(const Mixture& mixture, DecoderConfig& config);

// Gives one to every decoder_sparse_step-th layer but to those of mlp_only_layers (Qwen).
void set_mixtures_by_step(const JsonField& json, const Mixture& mixture, DecoderConfig& config);

// transformers' coefficient of the load-balancing loss, where a file leaves it out, of all but OLMoE.
inline constexpr double kRouterAuxLossCoef = 0.001;

// Reads the coefficient of the load-balancing loss, `missing` where the file leaves it out, and notes in `config` what
// of a router's training is not computed here: noise on what it reads.
void read_router_training(const JsonField& json, double missing, DecoderConfig& config);

}  // namespace spillway
