// The rule by which weights are updated.
#include <algorithm>
#include <iterator>

#include "config/resolve.h"
#include "config/values.h"

namespace spillway::config {
namespace {

// axolotl's groups of weights, where it makes any.
std::optional<LrGroups> resolve_groups(const Resolution& r) {
  const Spelled& keys = r.keys;
  constexpr const char* kGroupKeys[] = {"embedding_lr_scale", "embedding_lr", "lr_groups"};
  const bool has_embedding = keys.embedding_lr || keys.embedding_lr_scale;
  if (!has_embedding && keys.lr_groups.empty()) return {};
  if (keys.loraplus_lr_ratio && keys.adapter != Adapter::kNone && !has_embedding)
    throw input_error(r.where("lr_groups"),
                      "expected embedding_lr, or no loraplus_lr_ratio, beside it, got neither; remove one of them");
  if (keys.embedding_lr_scale) r.ignore("embedding_lr", "embedding_lr_scale wins over it");
  const auto given =
      std::find_if(std::begin(kGroupKeys), std::end(kGroupKeys), [&](const char* key) { return r.given(key); });
  if (keys.learning_rate == 0 && r.given("learning_rate"))
    throw input_error(r.where(*given),
                      "expected a learning_rate above 0 beside it, whose schedule it follows, got 0; "
                      "raise it");
  const double usual = keys.learning_rate;
  return LrGroups{
      .learning_rate = usual,
      .embedding_lr = keys.embedding_lr_scale ? usual * *keys.embedding_lr_scale : keys.embedding_lr.value_or(usual),
      .groups = keys.lr_groups};
}

}  // namespace

OptimizerSettings resolve_optimizer(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (keys.optimizer.name != "came") {
    for (const char* key : {"adam_beta3", "adam_epsilon2"}) r.ignore(key, "CAME alone reads it");
  }
  OptimizerSettings settings{keys,
                             {.name = keys.optimizer.name, .warms_up = keys.optimizer.warms_up},
                             keys.optim_args,
                             keys.is_deepspeed_optimizer,
                             resolve_groups(r)};
  if (settings.decays_all && keys.weight_decay != 0)
    r.note("deepspeed.optimizer: norms and biases decay, too, as where DeepSpeed makes the optimizer");
  if (keys.rl == Rl::kPpo) settings.max_grad_norm = 0;
  return settings;
}

}  // namespace spillway::config
