#include "ops/optimizers/optimizer.h"

#include <algorithm>

#include "ops/optimizers/adafactor/adafactor.h"
#include "ops/optimizers/adagrad/adagrad.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/optimizers/adamw_8bit/adamw_8bit.h"
#include "ops/optimizers/adamw_torchao/adamw_torchao.h"
#include "ops/optimizers/ademamix/ademamix.h"
#include "ops/optimizers/came/came.h"
#include "ops/optimizers/lion/lion.h"
#include "ops/optimizers/lion_8bit/lion_8bit.h"
#include "ops/optimizers/muon/muon.h"
#include "ops/optimizers/rmsprop/rmsprop.h"
#include "ops/optimizers/schedule_free_adamw/schedule_free_adamw.h"
#include "ops/optimizers/sgd/sgd.h"
#include "ops/optimizers/stable_adamw/stable_adamw.h"

namespace spillway::ops {

OptimizerOptions options_of(const OptimizerDef& optimizer, std::initializer_list<OptimizerOption> given) {
  OptimizerOptions options;
  for (const OptimizerOption& option : optimizer.options) options.add(option.name, option.value);
  for (const OptimizerOption& option : given) options.set(option.name, option.value);
  return options;
}

bool has_coded_states(const OptimizerOptions& options, const Shape& weight) {
  return static_cast<double>(weight.elems()) >= options.real(kMin8bitSize.name);
}

std::span<const OptimizerDef* const> all_optimizers() {
  static constexpr const OptimizerDef* kAll[] = {
      &kAdamw,    &kAdamw8bit,        &kAdamwTorchao8, &kAdamwTorchao4, &kLion,
      &kLion8bit, &kAdemamix,         &kAdemamix8bit,  &kOptimiAdamw,   &kSgd,
      &kRmsprop,  &kAdagrad,          &kAdafactor,     &kCame,          &kStableAdamw,
      &kMuon,     &kScheduleFreeAdamw};
  return kAll;
}

const OptimizerDef* find_optimizer(std::string_view name) {
  const auto all = all_optimizers();
  const auto found = std::find_if(all.begin(), all.end(), [&](const OptimizerDef* one) { return one->name == name; });
  return found == all.end() ? nullptr : *found;
}

}  // namespace spillway::ops
