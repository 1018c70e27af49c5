#include "job/weight_groups.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace spillway;
using namespace spillway::train;

namespace {

Parameter trained_weight(const std::string& name, const std::string& module, ParameterRole role, const Shape& shape) {
  return {.name = name, .module = module, .role = role, .shape = shape, .trained = true};
}

// A LoRA factor of each kind, a magnitude, what is trained in full, and a frozen weight.
ParameterTable adapter_table() {
  const std::string module = "model.layers.0.self_attn.q_proj", prefix = "base_model.model." + module;
  ParameterTable table;
  table.add({.name = module + ".weight", .module = module, .shape = {4, 4}});
  table.add(trained_weight(prefix + ".lora_A.weight", module, ParameterRole::kLoraA, {2, 4}));
  table.add(trained_weight(prefix + ".lora_B.weight", module, ParameterRole::kLoraB, {4, 2}));
  table.add(trained_weight(prefix + ".lora_magnitude_vector", module, ParameterRole::kMagnitude, {4}));
  table.add(trained_weight("model.norm.weight", "model.norm", ParameterRole::kNorm, {4}));
  return table;
}

}  // namespace

// By what axolotl's create_optimizer_grouped_parameters does with the names that PEFT gives.
TEST_CASE("an adapter's weights are in groups by PEFT's names, what is saved in full with the embeddings") {
  const std::string prefix = "base_model.model.model.layers.0.self_attn.q_proj.";
  const WeightGroups groups = weight_groups(
      adapter_table(),
      {.learning_rate = 1,
       .embedding_lr = 0.5,
       .groups = {{"a", {"lora_A.default.weight"}, 2, "a"}, {"q", {"base_model.model.model.layers.0."}, 3, "q"}}},
      true);
  CHECK(groups.rate_ratios == RateRatios{{prefix + "lora_A.weight", 2},
                                         {prefix + "lora_B.weight", 3},
                                         {prefix + "lora_magnitude_vector", 3},
                                         {"model.norm.weight", 0.5}});
  CHECK(groups.undecayed == std::set<std::string, std::less<>>{"model.norm.weight"});
}

TEST_CASE("a module that two groups name is in the last, and a group without weights is an error") {
  const auto groups = [](const std::vector<config::LrGroup>& said) {
    return weight_groups(adapter_table(), {.learning_rate = 2, .embedding_lr = 2, .groups = said}, true);
  };
  const WeightGroups last = groups({{"one", {"lora_B", "lora_A"}, 1, "one"}, {"two", {"lora_B"}, 4, "two"}});
  CHECK(last.rate_ratios.at("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight") == 0.5);
  CHECK(last.rate_ratios.at("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight") == 2);
  CHECK_THROWS_WITH_AS((void)groups({{"none", {"k_proj", "norm"}, 1, "c.yml:3: lr_groups.0"}}),
                       "[c.yml:3: lr_groups.0] expected modules that are a part of the names of trained weights, got "
                       "k_proj, norm, of which none is, or only of those of norms, biases, embeddings, heads and other "
                       "groups; correct them",
                       InputError);
}
