// Groups of weights that do not learn as the others do: those of LoRA+, and those that axolotl makes.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "config/config.h"
#include "model/parameters.h"

namespace spillway::train {

// By the name of a trained weight, how many times the run's learning rate its own is.
using RateRatios = std::map<std::string, double, std::less<>>;

// As PEFT's create_loraplus_optimizer: B and vectors have `ratio` times the rate of A.
[[nodiscard]] RateRatios loraplus_ratios(const ParameterTable& parameters, double ratio);

struct WeightGroups {
  RateRatios rate_ratios;
  std::set<std::string, std::less<>> undecayed;
};

// As create_optimizer_grouped_parameters of axolotl's trainer: embeddings, heads and what an adapter trains in full are
// a group that does not decay. Of the other weights that decay, each is in the group of the first module that is a part
// of its name. Names are those of PyTorch's modules, PEFT's with an adapter. Throws InputError for a group that no
// weight is in.
[[nodiscard]] WeightGroups weight_groups(const ParameterTable& parameters, const config::LrGroups& said,
                                         bool has_adapter);

}  // namespace spillway::train
