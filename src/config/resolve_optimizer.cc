// The rule by which weights are updated.
#include "config/resolve.h"
#include "config/values.h"

namespace spillway::config {

OptimizerSettings resolve_optimizer(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (keys.optimizer.name != "came") {
    for (const char* key : {"adam_beta3", "adam_epsilon2"}) r.ignore(key, "CAME alone reads it");
  }
  return {.optimizer = {.name = keys.optimizer.name, .warms_up = keys.optimizer.warms_up},
          .args = keys.optim_args,
          .weight_decay = keys.weight_decay,
          .adam_beta1 = keys.adam_beta1,
          .adam_beta2 = keys.adam_beta2,
          .adam_beta3 = keys.adam_beta3,
          .adam_epsilon = keys.adam_epsilon,
          .adam_epsilon2 = keys.adam_epsilon2,
          .max_grad_norm = keys.rl == Rl::kPpo ? 0 : keys.max_grad_norm};
}

}  // namespace spillway::config
