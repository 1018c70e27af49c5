// The words of keys about memory, and their values that are mappings.
#include <algorithm>

#include "config/values.h"

namespace spillway::config {
namespace {

constexpr Word<Checkpointing> kCheckpointings[] = {{"auto", Checkpointing::kAuto},
                                                   {"true", Checkpointing::kOn},
                                                   {"false", Checkpointing::kOff},
                                                   {"offload", Checkpointing::kOffload},
                                                   {"offload_disk", Checkpointing::kOffloadDisk}};

constexpr Word<ActivationOffloading> kActivationOffloadings[] = {{"false", ActivationOffloading::kOff},
                                                                 {"true", ActivationOffloading::kHost},
                                                                 {"legacy", ActivationOffloading::kLegacy},
                                                                 {"disk", ActivationOffloading::kDisk},
                                                                 {"hidden_states", ActivationOffloading::kHiddenStates},
                                                                 {"none", ActivationOffloading::kOff}};

constexpr Word<LayerOffloading> kLayerOffloadings[] = {{"false", LayerOffloading::kOff},
                                                       {"true", LayerOffloading::kHost},
                                                       {"host", LayerOffloading::kHost},
                                                       {"disk", LayerOffloading::kDisk},
                                                       {"none", LayerOffloading::kOff}};

constexpr Word<Offload> kOffloads[] = {{"none", Offload::kNone},
                                       {"host", Offload::kHost},
                                       {"disk", Offload::kDisk},
                                       {"auto", Offload::kAuto},
                                       {"false", Offload::kNone}};

// The names of torch's operations are what axolotl takes beside `attention`.
constexpr Word<SavedOutputs> kSavedOutputs[] = {
    {"attention", SavedOutputs::kAttention},  {"matmul", SavedOutputs::kProducts},
    {"mm", SavedOutputs::kProducts},          {"addmm", SavedOutputs::kProducts},
    {"bmm", SavedOutputs::kProducts},         {"aten::mm", SavedOutputs::kProducts},
    {"aten::addmm", SavedOutputs::kProducts}, {"aten::bmm", SavedOutputs::kProducts}};

constexpr Word<LayerType> kLayerTypes[] = {{"full_attention", LayerType::kFullAttention},
                                           {"sliding_attention", LayerType::kSlidingAttention},
                                           {"chunked_attention", LayerType::kOther},
                                           {"linear_attention", LayerType::kOther}};

constexpr Word<PlanMode> kPlanModes[] = {{"auto", PlanMode::kAuto}, {"fixed", PlanMode::kFixed}};

constexpr Word<ZeroStage> kZeroStages[] = {{"auto", ZeroStage::kAuto},
                                           {"0", ZeroStage::kNothing},
                                           {"1", ZeroStage::kOptimizerState},
                                           {"2", ZeroStage::kGradients},
                                           {"3", ZeroStage::kWeights}};

constexpr Word<GradientReduction> kGradientReductions[] = {{"ordered", GradientReduction::kOrdered},
                                                           {"by_host", GradientReduction::kByHost}};

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// One word or a list of them.
template <Enumeration E>
void read_named_words(const YamlNode& node, const KeyPlace& place, std::vector<E>& value) {
  std::vector<std::string> names;
  read_value(node, place, {}, names);
  value.clear();
  for (size_t i = 0; i < names.size(); ++i) {
    read_value(YamlNode::scalar(names[i]), node.kind == YamlNode::Kind::kList ? place.at(i) : place, {},
               value.emplace_back());
  }
}

}  // namespace

std::span<const Word<Checkpointing>> words_of(Checkpointing) { return kCheckpointings; }
std::span<const Word<ActivationOffloading>> words_of(ActivationOffloading) { return kActivationOffloadings; }
std::span<const Word<LayerOffloading>> words_of(LayerOffloading) { return kLayerOffloadings; }
std::span<const Word<Offload>> words_of(Offload) { return kOffloads; }
std::span<const Word<SavedOutputs>> words_of(SavedOutputs) { return kSavedOutputs; }
std::span<const Word<LayerType>> words_of(LayerType) { return kLayerTypes; }
std::span<const Word<ZeroStage>> words_of(ZeroStage) { return kZeroStages; }
std::span<const Word<GradientReduction>> words_of(GradientReduction) { return kGradientReductions; }
std::span<const Word<PlanMode>> words_of(PlanMode) { return kPlanModes; }

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, SelectiveCheckpointing& value) {
  value = {};
  if (node.kind != YamlNode::Kind::kMap) {
    read_value(node, place, range, value.enabled);
    return;
  }
  value.enabled = true;
  for (const auto& entry : node.entries) {
    constexpr std::string_view kKeys[] = {
        "save", "offload", "save_sliding_window", "recompute_layer_types", "save_modules", "save_matmul_min_k"};
    const KeyPlace here = place.at(entry);
    if (std::find(std::begin(kKeys), std::end(kKeys), entry.key) == std::end(kKeys)) {
      const std::string_view near = nearest_name(entry.key, kKeys);
      throw input_error(here.text(), "expected {}, got {}; {}", joined_names(kKeys), quote(entry.key),
                        near.empty() ? "remove it" : fmt::format("did you mean {}?", near));
    }
    if (entry.value.is_null()) continue;
    if (entry.key == "offload") {
      read_value(entry.value, here, range, value.offload);
    } else if (entry.key == "save_sliding_window") {
      read_value(entry.value, here, range, value.save_sliding_window);
    } else if (entry.key == "save_modules" || entry.key == "save_matmul_min_k") {
      throw NotYetError(
          fmt::format("[{}] expected nothing, got {}; a choice of products is not yet supported: remove "
                      "the key",
                      here.text(), entry.value.shown()));
    } else if (entry.key == "recompute_layer_types") {
      read_named_words(entry.value, here, value.recompute_layer_types);
    } else {
      read_named_words(entry.value, here, value.save);
    }
  }
}

std::string print_value(const SelectiveCheckpointing& value) { return print_value(value.enabled); }

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, MaxMemory& value) {
  value.sizes.clear();
  const auto add = [&](const std::string& name, const YamlNode& size, const KeyPlace& here) {
    if (!is_number(name) && name != "cpu" && name != "disk") {
      throw input_error(here.text(), "expected a device's number, cpu or disk, got {}; remove it", quote(name));
    }
    if (size.kind != YamlNode::Kind::kScalar) {
      throw input_error(here.text(), "expected a size such as 20GiB, got {}; write one", size.shown());
    }
    value.sizes[name] = size.text;
  };
  if (node.kind == YamlNode::Kind::kScalar) {
    throw input_error(place.text(), "expected a mapping, got {}; write `0: 20GiB` lines below the key", node.shown());
  }
  for (const auto& entry : node.entries) add(entry.key, entry.value, place.at(entry));
  for (size_t i = 0; i < node.items.size(); ++i) add(fmt::format("{}", i), node.items[i], place.at(i));
}

}  // namespace spillway::config
