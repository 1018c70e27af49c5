// The names of optimizers, and their options: which there are is the optimizer's to say.
#include <algorithm>

#include "config/values.h"

namespace spillway::config {
namespace {

// Names of transformers and axolotl.
constexpr Word<Optimizer> kOptimizers[] = {{"adamw_torch_fused", Optimizer{"adamw"}},
                                           {"adamw_torch", Optimizer{"adamw"}},
                                           {"adamw", Optimizer{"adamw"}},
                                           {"adamw_hf", Optimizer{"adamw"}},
                                           {"adamw_apex_fused", Optimizer{"adamw"}},
                                           {"adamw_torch_xla", Optimizer{"adamw"}},
                                           {"adamw_torch_npu_fused", Optimizer{"adamw"}},
                                           {"paged_adamw_32bit", Optimizer{"adamw", true}},
                                           {"paged_adamw", Optimizer{"adamw", true}},
                                           {"sgd", Optimizer{"sgd"}},
                                           {"adamw_bnb_8bit", Optimizer{"adamw_8bit"}},
                                           {"adamw_8bit", Optimizer{"adamw_8bit"}},
                                           {"adamw_torch_8bit", Optimizer{"adamw_torch_8bit"}},
                                           {"paged_adamw_8bit", Optimizer{"adamw_8bit", true}},
                                           {"ao_adamw_8bit", Optimizer{"adamw_torch_8bit"}},
                                           {"ao_adamw_fp8", {}, "8-bit optimizer states are"},
                                           {"adamw_torch_4bit", Optimizer{"adamw_torch_4bit"}},
                                           {"ao_adamw_4bit", Optimizer{"adamw_torch_4bit"}},
                                           {"lion_8bit", Optimizer{"lion_8bit"}},
                                           {"lion_32bit", Optimizer{"lion"}},
                                           {"lion", Optimizer{"lion"}},
                                           {"lion_pytorch", Optimizer{"lion"}},
                                           {"paged_lion_32bit", Optimizer{"lion", true}},
                                           {"paged_lion_8bit", Optimizer{"lion_8bit", true}},
                                           {"ademamix", Optimizer{"ademamix"}},
                                           {"ademamix_8bit", Optimizer{"ademamix_8bit"}},
                                           {"paged_ademamix_32bit", Optimizer{"ademamix", true}},
                                           {"paged_ademamix_8bit", Optimizer{"ademamix_8bit", true}},
                                           {"adafactor", Optimizer{"adafactor"}},
                                           {"adagrad", Optimizer{"adagrad"}},
                                           {"rmsprop", Optimizer{"rmsprop"}},
                                           {"rmsprop_bnb", {}, "bitsandbytes' RMSprop is"},
                                           {"rmsprop_bnb_8bit", {}, "bitsandbytes' RMSprop is"},
                                           {"rmsprop_bnb_32bit", {}, "bitsandbytes' RMSprop is"},
                                           {"muon", Optimizer{"muon"}},
                                           {"muon_8bit", {}, "Muon is"},
                                           {"dion", {}, "Dion is"},
                                           {"galore_adamw", {}, "GaLore is"},
                                           {"galore_adamw_8bit", {}, "GaLore is"},
                                           {"galore_adafactor", {}, "GaLore is"},
                                           {"galore_adamw_layerwise", {}, "GaLore is"},
                                           {"galore_adamw_8bit_layerwise", {}, "GaLore is"},
                                           {"galore_adafactor_layerwise", {}, "GaLore is"},
                                           {"q_galore_adamw8bit", {}, "GaLore is"},
                                           {"apollo_adamw", {}, "APOLLO is"},
                                           {"apollo_adamw_layerwise", {}, "APOLLO is"},
                                           {"lomo", {}, "LOMO is"},
                                           {"adalomo", {}, "LOMO is"},
                                           {"schedule_free_adamw", Optimizer{"schedule_free_adamw", false, true}},
                                           {"schedule_free_radam", {}, "a schedule-free optimizer is"},
                                           {"schedule_free_sgd", {}, "a schedule-free optimizer is"},
                                           {"adamw_anyprecision", {}, "an optimizer of bf16 weights is"},
                                           {"optimi_adamw", Optimizer{"optimi_adamw"}},
                                           {"flash_adamw", {}, "an optimizer of bf16 weights is"},
                                           {"flash_adam", {}, "an optimizer of bf16 weights is"},
                                           {"flash_sgd", {}, "an optimizer of bf16 weights is"},
                                           {"flash_sgdw", {}, "an optimizer of bf16 weights is"},
                                           {"flash_lion", {}, "an optimizer of bf16 weights is"},
                                           {"grokadamw", {}, "GrokAdamW is"},
                                           {"stable_adamw", Optimizer{"stable_adamw"}},
                                           {"adopt_adamw", {}, "ADOPT is"},
                                           {"adamc", {}, "AdamC is"},
                                           {"came_pytorch", Optimizer{"came"}},
                                           {"sinkgd", {}, "SinkGD is"},
                                           {"polora", {}, "PoLoRA is"},
                                           {"scao", {}, "SCAO is"}};

void add_option(const YamlNode& node, const KeyPlace& place, std::string_view name, OptimArgs& value) {
  const auto same = [&](const OptimArg& one) { return one.name == name; };
  if (std::any_of(value.items.begin(), value.items.end(), same))
    throw input_error(place.text(), "expected each option once, got {} twice; remove one", quote(name));
  const auto number = number_of(node);
  const auto flag = boolean_of(node);
  if (!number && !flag)
    throw input_error(place.text(), "expected a number, true or false for {}, got {}; write one", name, node.shown());
  value.items.push_back({std::string(name), number ? *number : *flag ? 1.0 : 0.0, place.text()});
}

// All three members are required, as in axolotl.
LrGroup lr_group_of(const YamlNode& node, const KeyPlace& place, const Range& range) {
  constexpr std::string_view kMembers[] = {"name", "modules", "lr"};
  if (node.kind != YamlNode::Kind::kMap)
    throw input_error(place.text(), "expected a mapping with name, modules and lr, got {}; write one", node.shown());
  LrGroup group{.where = place.text()};
  for (const auto& entry : node.entries) {
    const KeyPlace here = place.at(entry);
    if (entry.key == "name") {
      read_value(entry.value, here, range, group.name);
    } else if (entry.key == "modules") {
      read_value(entry.value, here, range, group.modules);
    } else if (entry.key == "lr") {
      read_value(entry.value, here, {.least = 0, .most = 1e3}, group.lr);
    } else {
      const std::string_view near = nearest_name(entry.key, kMembers);
      throw input_error(here.text(), "expected name, modules or lr, got {}; {}", quote(entry.key),
                        near.empty() ? "remove it" : fmt::format("did you mean {}?", near));
    }
  }
  for (const std::string_view member : kMembers) {
    if (node.find(member) == nullptr || node.find(member)->is_null())
      throw input_error(place.text(), "expected {} in the mapping, got none; write it", member);
  }
  return group;
}

}  // namespace

std::span<const Word<Optimizer>> words_of(Optimizer) { return kOptimizers; }

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<LrGroup>& value) {
  value.clear();
  if (node.kind != YamlNode::Kind::kList)
    throw input_error(place.text(), "expected a list, got {}; write `- name: NAME` lines with modules and lr",
                      node.shown());
  for (size_t i = 0; i < node.items.size(); ++i) value.push_back(lr_group_of(node.items[i], place.at(i), range));
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, OptimArgs& value) {
  value.items.clear();
  if (node.kind == YamlNode::Kind::kMap) {
    for (const auto& entry : node.entries) {
      if (!entry.value.is_null()) add_option(entry.value, place.at(entry), entry.key, value);
    }
    return;
  }
  if (node.kind != YamlNode::Kind::kScalar)
    throw input_error(place.text(), "expected a mapping or a text like \"momentum=0.9\", got {}; write one",
                      node.shown());
  // As transformers reads it: without spaces, between commas.
  std::string text = node.text;
  std::erase(text, ' ');
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view option = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = option.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw input_error(place.text(), "expected name=value between commas, got {}; write it so", quote(option));
    add_option(YamlNode::scalar(std::string(option.substr(equals + 1))), place, option.substr(0, equals), value);
  }
}

}  // namespace spillway::config
