#include "ops/optimizers/optimizer.h"

#include <algorithm>

#include "ops/optimizers/adamw/adamw.h"
#include "ops/optimizers/adamw_8bit/adamw_8bit.h"
#include "ops/optimizers/adamw_torchao/adamw_torchao.h"
#include "ops/optimizers/lion/lion.h"
#include "ops/optimizers/sgd/sgd.h"

namespace spillway::ops {

std::span<const OptimizerDef* const> all_optimizers() {
  static constexpr const OptimizerDef* kAll[] = {&kAdamw, &kAdamw8bit, &kAdamwTorchao8, &kAdamwTorchao4, &kLion, &kSgd};
  return kAll;
}

const OptimizerDef* find_optimizer(std::string_view name) {
  const auto all = all_optimizers();
  const auto found = std::find_if(all.begin(), all.end(), [&](const OptimizerDef* one) { return one->name == name; });
  return found == all.end() ? nullptr : *found;
}

}  // namespace spillway::ops
