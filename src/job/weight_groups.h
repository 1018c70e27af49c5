// Groups of weights with their own learning rate or decay: those of LoRA+, and those of axolotl's lr_groups.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "config/config.h"
#include "model/parameters.h"

namespace spillway::train {

// By name of a trained weight: its learning rate as a multiple of the run's.
using RateRatios = std::map<std::string, double, std::less<>>;

struct WeightGroups {
  RateRatios rate_ratios;
  std::set<std::string, std::less<>> undecayed;
};

// As PEFT's create_loraplus_optimizer: B and vectors have `ratio` times the learning rate of A, and everything but
// biases decays.
[[nodiscard]] WeightGroups loraplus_groups(const ParameterTable& parameters, double ratio);
// As axolotl's apply_loraplus_lr_groups: B has `ratio` times the rate that it would have had.
void raise_rates_of_b(const ParameterTable& parameters, double ratio, RateRatios& ratios);

// As create_optimizer_grouped_parameters of axolotl's trainer: embeddings, heads and modules that an adapter trains in
// full are a group without decay. Each other weight with decay is in the group of the first module that is part of its
// name. Names are those of PyTorch's modules, PEFT's with an adapter. Throws InputError for a group without weights.
[[nodiscard]] WeightGroups weight_groups(const ParameterTable& parameters, const config::LrGroups& said,
                                         bool has_adapter);

}  // namespace spillway::train
