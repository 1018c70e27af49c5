// Checkpointing and offloading: the homes that keys fix.
#include "config/resolve.h"
#include "config/values.h"

namespace spillway::config {
namespace {

bool moves(std::optional<ActivationOffloading> activations) {
  return activations.value_or(ActivationOffloading::kOff) != ActivationOffloading::kOff;
}

// Older spellings put offloading into gradient_checkpointing.
void take_offload_word(const Resolution& r, OffloadSettings& offload) {
  const Checkpointing said = r.keys.gradient_checkpointing;
  if (said != Checkpointing::kOffload && said != Checkpointing::kOffloadDisk) return;
  const auto meant = said == Checkpointing::kOffloadDisk ? ActivationOffloading::kDisk : ActivationOffloading::kHost;
  if (offload.activations && *offload.activations != meant) {
    throw input_error(r.where("activation_offloading"),
                      "expected {} beside gradient_checkpointing: {}, got {}; write gradient_checkpointing: true",
                      print_value(meant), print_value(said), print_value(*offload.activations));
  }
  r.note(fmt::format("gradient_checkpointing: {} is gradient_checkpointing: true with activation_offloading: {}",
                     print_value(said), print_value(meant)));
  offload.activations = meant;
}

// Selective checkpointing is a way of checkpointing, and the keys that say whether there is any go before it.
void resolve_selective(const Resolution& r, OffloadSettings& offload) {
  if (!offload.selective_checkpointing.enabled) return;
  if (moves(offload.activations) && offload.activations != ActivationOffloading::kHiddenStates) {
    r.note(
        "selective_checkpointing with activation_offloading: what is kept moves, the rest is recomputed; axolotl "
        "refuses it");
  }
  const bool is_off = offload.gradient_checkpointing == false;
  if (!r.given("gradient_checkpointing") || is_off) {
    throw input_error(r.where("selective_checkpointing"), "expected gradient_checkpointing: true beside it, got {}; {}",
                      is_off ? "false" : "none", is_off ? "remove one of them" : "set it");
  }
  offload.gradient_checkpointing = true;
}

std::optional<Offload> home_of(std::optional<LayerOffloading> said) {
  if (!said) return {};
  switch (*said) {
    case LayerOffloading::kOff:
      return Offload::kNone;
    case LayerOffloading::kHost:
      return Offload::kHost;
    case LayerOffloading::kDisk:
      break;
  }
  return Offload::kDisk;
}

void resolve_homes(const Resolution& r, OffloadSettings& offload) {
  const Spelled& keys = r.keys;
  const std::optional<Offload> layers = home_of(keys.layer_offloading);
  if (layers.value_or(Offload::kNone) != Offload::kNone && !offload.has_frozen_weights) {
    r.note(
        "layer_offloading moves frozen weights, and full fine-tuning has none; parameter_offload moves trainable ones");
  }
  const auto place = [&](ValueKind kind, std::optional<Offload> home) {
    if (home) offload.homes[kind] = *home;
  };
  place(ValueKind::kFrozenWeight, layers && offload.has_frozen_weights ? layers : keys.parameter_offload);
  place(ValueKind::kTrainableWeight, keys.parameter_offload);
  offload.experts = keys.expert_offload;
  place(ValueKind::kGradient, keys.gradient_offload);
  const std::optional<Offload> paged = keys.optimizer.paged ? std::optional(Offload::kAuto) : std::nullopt;
  place(ValueKind::kOptimizerState, keys.optimizer_offload ? keys.optimizer_offload : paged);
}

}  // namespace

OffloadSettings resolve_offload(const Resolution& r) {
  const Spelled& keys = r.keys;
  OffloadSettings offload{.plan = keys.memory_plan,
                          .has_frozen_weights = keys.adapter != Adapter::kNone,
                          .selective_checkpointing = keys.selective_checkpointing,
                          .activations = keys.activation_offloading};
  if (keys.gradient_checkpointing != Checkpointing::kAuto)
    offload.gradient_checkpointing = keys.gradient_checkpointing != Checkpointing::kOff;
  take_offload_word(r, offload);
  if (moves(offload.activations) && offload.gradient_checkpointing == false) {
    r.note("activation_offloading without gradient_checkpointing: every saved activation moves; axolotl refuses it");
  }
  resolve_selective(r, offload);
  resolve_homes(r, offload);
  return offload;
}

}  // namespace spillway::config
