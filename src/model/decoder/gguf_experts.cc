// The weights of mixtures of experts, in GGUF: each projection of all experts of a layer is one tensor, [experts, rows,
// columns].
#include <fmt/format.h>

#include "model/decoder/gguf_weight_list.h"

namespace spillway {

void GgufWeightList::add_mixture(const Mixture& mixture) {
  const std::string module = mixture.module.empty() ? "" : fmt::format("{}.", mixture.module);
  add_router(mixture, module);
  if (mixture.fused) {
    add_fused_experts(mixture, module);
  } else if (mixture.stacked) {
    add_stacked_experts(mixture, module);
  } else {
    add_experts(mixture, module);
  }
  if (mixture.shared_inner > 0) add_shared_expert(mixture, module);
}

// Routers are f32 in every type of file.
void GgufWeightList::add_router(const Mixture& mixture, const std::string& module) {
  const int64_t experts = mixture.experts, hidden = config_.hidden_size;
  const std::string router = fmt::format("{}{}", module, mixture.router);
  add("ffn_gate_inp.weight", fmt::format("{}.weight", router), {experts, hidden}).is_f32 = true;
  if (mixture.fused) add("ffn_gate_inp.bias", fmt::format("{}.bias", router), {experts});
  if (!mixture.choice_bias.empty())
    add("exp_probs_b.bias", fmt::format("{}{}", module, mixture.choice_bias), {experts});
  if (!mixture.router_scales) return;
  add("ffn_gate_inp.scale", fmt::format("{}{}", module, mixture.router_scales->input), {hidden});
  add("ffn_down_exps.scale", fmt::format("{}{}", module, mixture.router_scales->experts), {experts});
}

void GgufWeightList::add_experts(const Mixture& mixture, const std::string& module) {
  // The projections stand below each other, expert by expert.
  const auto stack = [&](std::string_view gguf, const std::vector<std::string_view>& projections, int64_t rows,
                         int64_t columns) {
    std::vector<GgufPart> parts;
    for (int64_t expert = 0; expert < mixture.experts; ++expert)
      for (const std::string_view projection : projections)
        parts.push_back(part(fmt::format("{}experts.{}.{}.weight", module, expert, projection), {rows, columns}));
    add(gguf, {mixture.experts, rows * std::ssize(projections), columns}, std::move(parts));
  };
  const int64_t inner = mixture.inner, hidden = mixture.latent > 0 ? mixture.latent : config_.hidden_size;
  if (mixture.latent > 0) {
    linear("ffn_latent_down", fmt::format("{}fc1_latent_proj", module), hidden, config_.hidden_size, false);
    linear("ffn_latent_up", fmt::format("{}fc2_latent_proj", module), config_.hidden_size, hidden, false);
  }
  if (!mixture.has_gate) {
    stack("ffn_up_exps.weight", {mixture.up_proj}, inner, hidden);
  } else if (family_.mixture.keeps_gate_up) {
    stack("ffn_gate_up_exps.weight", {mixture.gate_proj, mixture.up_proj}, inner, hidden);
  } else {
    stack("ffn_gate_exps.weight", {mixture.gate_proj}, inner, hidden);
    stack("ffn_up_exps.weight", {mixture.up_proj}, inner, hidden);
  }
  stack("ffn_down_exps.weight", {mixture.down_proj}, hidden, inner);
}

void GgufWeightList::add_stacked_experts(const Mixture& mixture, const std::string& module) {
  const int64_t experts = mixture.experts, hidden = config_.hidden_size, inner = mixture.inner, half = inner * hidden;
  const std::string gate_up = fmt::format("{}{}", module, mixture.stacked->gate_up_proj);
  if (family_.mixture.keeps_gate_up) {
    add("ffn_gate_up_exps.weight", gate_up, {experts, 2 * inner, hidden});
  } else {
    const auto add_half = [&](std::string_view gguf, int64_t first) {
      GgufPart rows = part(gate_up, {experts, 2 * inner, hidden});
      rows.first = first;
      rows.axes = {{experts, 2 * half}, {half, 1}};
      add(gguf, {experts, inner, hidden}, {rows});
    };
    add_half("ffn_gate_exps.weight", 0);
    add_half("ffn_up_exps.weight", half);
  }
  add("ffn_down_exps.weight", fmt::format("{}{}", module, mixture.stacked->down_proj), {experts, hidden, inner});
}

// Files have these [in, out], with gates and ups in turn.
void GgufWeightList::add_fused_experts(const Mixture& mixture, const std::string& module) {
  const int64_t experts = mixture.experts, hidden = config_.hidden_size, inner = mixture.inner;
  const auto name = [&](std::string_view tensor) { return fmt::format("{}experts.{}", module, tensor); };
  const auto add_every_second = [&](std::string_view gguf, int64_t first) {
    GgufPart weight = part(name("gate_up_proj"), {experts, hidden, 2 * inner});
    weight.first = first;
    weight.axes = {{experts, hidden * 2 * inner}, {inner, 2}, {hidden, 2 * inner}};
    add(fmt::format("{}.weight", gguf), {experts, inner, hidden}, {weight});
  };
  const auto add_bias_of_every_second = [&](std::string_view gguf, int64_t first) {
    GgufPart bias = part(name("gate_up_proj_bias"), {experts, 2 * inner});
    bias.first = first;
    bias.axes = {{experts, 2 * inner}, {inner, 2}};
    add(fmt::format("{}.bias", gguf), {experts, inner}, {bias}).is_f32 = true;
  };
  add_every_second("ffn_gate_exps", 0);
  add_every_second("ffn_up_exps", 1);
  add_bias_of_every_second("ffn_gate_exps", 0);
  add_bias_of_every_second("ffn_up_exps", 1);
  GgufPart down = part(name("down_proj"), {experts, inner, hidden});
  down.axes = {{experts, inner * hidden}, {hidden, 1}, {inner, hidden}};
  add("ffn_down_exps.weight", {experts, hidden, inner}, {down});
  add("ffn_down_exps.bias", name("down_proj_bias"), {experts, hidden}).is_f32 = true;
}

void GgufWeightList::add_shared_expert(const Mixture& mixture, const std::string& module) {
  const int64_t hidden = config_.hidden_size, inner = mixture.shared_inner;
  const std::string expert = fmt::format("{}{}", module, mixture.shared_expert);
  if (mixture.shared_has_gate)
    add("ffn_gate_inp_shexp.weight", fmt::format("{}shared_expert_gate.weight", module), {1, hidden}).is_f32 = true;
  if (mixture.has_gate) linear("ffn_gate_shexp", fmt::format("{}.gate_proj", expert), inner, hidden, false);
  linear("ffn_up_shexp", fmt::format("{}.up_proj", expert), inner, hidden, false);
  linear("ffn_down_shexp", fmt::format("{}.down_proj", expert), hidden, inner, false);
}

}  // namespace spillway
