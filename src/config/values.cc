#include "config/values.h"
#include "config/yaml_scalar.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace spillway::config {
namespace {

constexpr Word<Adapter> kAdapters[] = {{"none", Adapter::kNone},
                                       {"lora", Adapter::kLora},
                                       {"qlora", Adapter::kQlora},
                                       {"llama-adapter", {}, "prompt adapters are"},
                                       {"mora", Adapter::kLora, "adapters with square matrices are"},
                                       {"mixlora", Adapter::kLora, "mixtures of adapters are"}};

// bnb_4bit_quant_type.
constexpr Word<WeightCoding> kFourBitCodings[] = {{"nf4", WeightCoding::kNf4}, {"fp4", WeightCoding::kFp4}};

// PEFT's init_lora_weights.
constexpr Word<LoraInit> kLoraInits[] = {{"true", LoraInit{}},
                                         {"gaussian", LoraInit{LoraStart::kGaussian}},
                                         {"pissa", LoraInit{LoraStart::kPissa}},
                                         {"olora", LoraInit{LoraStart::kOlora}},
                                         {"loftq", LoraInit{LoraStart::kLoftq}},
                                         {"false", {}, "a B that is not zero is"},
                                         {"eva", {}, "an adapter out of activations is"},
                                         {"corda", {}, "an adapter out of activations is"},
                                         {"orthogonal", {}, "an orthogonal adapter is"}};

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
                                           {"optimi_adamw", Optimizer{"adamw"}},
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

// Names of transformers and axolotl. Those that a schedule changes by other keys are in resolve_schedule.cc.
constexpr Word<LrScheduler> kSchedulers[] = {{"constant", LrScheduler{"constant"}},
                                             {"constant_with_warmup", LrScheduler{"constant_with_warmup"}},
                                             {"linear", LrScheduler{"linear"}},
                                             {"cosine", LrScheduler{"cosine"}},
                                             {"cosine_with_restarts", LrScheduler{"cosine_with_restarts"}},
                                             {"cosine_with_min_lr", LrScheduler{"cosine_with_min_lr"}},
                                             {"cosine_warmup_with_min_lr", LrScheduler{"cosine_warmup_with_min_lr"}},
                                             {"polynomial", LrScheduler{"polynomial"}},
                                             {"inverse_sqrt", LrScheduler{"inverse_sqrt"}},
                                             {"warmup_stable_decay", LrScheduler{"warmup_stable_decay"}},
                                             {"rex", LrScheduler{"rex"}},
                                             {"one_cycle", LrScheduler{"one_cycle"}},
                                             {"greedy", {}, "schedules by loss are"},
                                             {"reduce_lr_on_plateau", {}, "schedules by evaluation loss are"},
                                             {"log_sweep", {}, "the sweep is"}};

constexpr Word<WeightType> kWeightTypes[] = {{"auto", WeightType::kAuto},
                                             {"float32", WeightType::kF32},
                                             {"bfloat16", WeightType::kBf16},
                                             {"float16", {}, "f16 weights are"}};

constexpr Word<Rl> kRls[] = {{"none", Rl::kNone},
                             {"dpo", Rl::kDpo},
                             {"ipo", Rl::kIpo},
                             {"simpo", Rl::kSimpo},
                             {"cpo", Rl::kCpo},
                             {"orpo", Rl::kOrpo},
                             {"kto", Rl::kKto},
                             {"grpo", Rl::kGrpo},
                             {"gdpo", Rl::kGdpo},
                             {"rloo", Rl::kRloo},
                             {"online_dpo", Rl::kOnlineDpo},
                             {"ppo", Rl::kPpo},
                             {"xpo", {}, "XPO is"},
                             {"nash_md", {}, "Nash-MD is"},
                             {"ebft", {}, "energy-based fine-tuning is"}};

constexpr Word<FDivergence> kFDivergences[] = {{"reverse_kl", FDivergence::kReverseKl},
                                               {"forward_kl", FDivergence::kForwardKl},
                                               {"js_divergence", FDivergence::kJs},
                                               {"alpha_divergence", FDivergence::kAlpha}};

constexpr Word<AutoBool> kAutoBools[] = {
    {"auto", AutoBool::kAuto}, {"true", AutoBool::kTrue}, {"false", AutoBool::kFalse}};

constexpr Word<Bf16> kBf16s[] = {
    {"auto", Bf16::kAuto}, {"true", Bf16::kTrue}, {"full", Bf16::kFull}, {"false", Bf16::kFalse}};

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

constexpr Word<ExcessLength> kExcessLengths[] = {
    {"drop", ExcessLength::kDrop}, {"truncate", ExcessLength::kTruncate}, {"raise", ExcessLength::kRaise}};

constexpr Word<PackingStrategy> kPackingStrategies[] = {{"bfd", PackingStrategy::kBfd},
                                                        {"bfd_split", PackingStrategy::kBfdSplit},
                                                        {"bfd-requeue", PackingStrategy::kBfdSplit},  // its old name
                                                        {"wrapped", PackingStrategy::kWrapped}};
constexpr Word<PackingScope> kPackingScopes[] = {{"batch", PackingScope::kBatch}, {"dataset", PackingScope::kDataset}};
constexpr Word<SamplingStrategy> kSamplings[] = {{"random", SamplingStrategy::kRandom},
                                                 {"sequential", SamplingStrategy::kSequential},
                                                 {"group_by_length", SamplingStrategy::kGroupByLength}};
constexpr Word<TruncationMode> kTruncationModes[] = {{"keep_start", TruncationMode::kKeepStart},
                                                     {"keep_end", TruncationMode::kKeepEnd}};

constexpr Word<TrainOnEos> kTrainOnEos[] = {
    {"turn", TrainOnEos::kTurn}, {"all", TrainOnEos::kAll}, {"last", TrainOnEos::kLast}, {"none", TrainOnEos::kNone}};

constexpr Word<IntervalStrategy> kStrategies[] = {
    {"no", IntervalStrategy::kNo}, {"steps", IntervalStrategy::kSteps}, {"epoch", IntervalStrategy::kEpoch}};
constexpr Word<SaveStrategy> kSaveStrategies[] = {{"no", SaveStrategy::kNo},
                                                  {"steps", SaveStrategy::kSteps},
                                                  {"epoch", SaveStrategy::kEpoch},
                                                  {"best", SaveStrategy::kBest}};

constexpr Word<PlanMode> kPlanModes[] = {{"auto", PlanMode::kAuto}, {"fixed", PlanMode::kFixed}};

const YamlNode& scalar(const YamlNode& node, const KeyPlace& place, std::string_view expected) {
  if (node.kind != YamlNode::Kind::kScalar)
    throw input_error(place.text(), "expected {}, got {}; write one value", expected, node.shown());
  // No path, token or column can hold one, and what reads them would stop there.
  if (const size_t at = node.text.find('\0'); at != std::string::npos)
    throw input_error(place.text(), "expected {}, got a NUL character behind {}; remove it", expected,
                      quote(node.text.substr(0, at)));
  return node;
}

// One item of a list or mapping; its own empty value is a mistake, where a key's is a default.
std::string text_item(const YamlNode& node, const KeyPlace& place) {
  if (node.is_null()) throw input_error(place.text(), "expected text, got nothing; write a value or remove it");
  return scalar(node, place, "text").text;
}

// Names are what lists of texts hold: what YAML reads as a number or a truth value is none, as in axolotl.
std::string name_item(const YamlNode& node, const KeyPlace& place) {
  std::string text = text_item(node, place);
  if (!node.quoted && (number_of(node) || boolean_of(node)))
    throw input_error(place.text(), "expected text, got {} without quotes; write \"{}\" if it is a name", text, text);
  return text;
}

const std::vector<YamlNode::Entry>& map_entries(const YamlNode& node, const KeyPlace& place) {
  if (node.kind != YamlNode::Kind::kMap) {
    throw input_error(place.text(), "expected a mapping, got {}; write `name: value` lines below the key",
                      node.shown());
  }
  return node.entries;
}

}  // namespace

std::span<const Word<PackingStrategy>> words_of(PackingStrategy) { return kPackingStrategies; }
std::span<const Word<PackingScope>> words_of(PackingScope) { return kPackingScopes; }
std::span<const Word<SamplingStrategy>> words_of(SamplingStrategy) { return kSamplings; }
std::span<const Word<Adapter>> words_of(Adapter) { return kAdapters; }
std::span<const Word<LoraInit>> words_of(const LoraInit&) { return kLoraInits; }
std::span<const Word<WeightCoding>> words_of(WeightCoding) { return kFourBitCodings; }
std::span<const Word<Optimizer>> words_of(Optimizer) { return kOptimizers; }
std::span<const Word<LrScheduler>> words_of(LrScheduler) { return kSchedulers; }
std::span<const Word<Rl>> words_of(Rl) { return kRls; }
std::span<const Word<FDivergence>> words_of(FDivergence) { return kFDivergences; }
std::span<const Word<AutoBool>> words_of(AutoBool) { return kAutoBools; }
std::span<const Word<Bf16>> words_of(Bf16) { return kBf16s; }
std::span<const Word<WeightType>> words_of(WeightType) { return kWeightTypes; }
std::span<const Word<Checkpointing>> words_of(Checkpointing) { return kCheckpointings; }
std::span<const Word<ExcessLength>> words_of(ExcessLength) { return kExcessLengths; }
std::span<const Word<TruncationMode>> words_of(TruncationMode) { return kTruncationModes; }
std::span<const Word<TrainOnEos>> words_of(TrainOnEos) { return kTrainOnEos; }
std::span<const Word<IntervalStrategy>> words_of(IntervalStrategy) { return kStrategies; }
std::span<const Word<SaveStrategy>> words_of(SaveStrategy) { return kSaveStrategies; }
std::span<const Word<PlanMode>> words_of(PlanMode) { return kPlanModes; }
std::span<const Word<ActivationOffloading>> words_of(ActivationOffloading) { return kActivationOffloadings; }
std::span<const Word<LayerOffloading>> words_of(LayerOffloading) { return kLayerOffloadings; }
std::span<const Word<Offload>> words_of(Offload) { return kOffloads; }
std::span<const Word<SavedOutputs>> words_of(SavedOutputs) { return kSavedOutputs; }
std::span<const Word<LayerType>> words_of(LayerType) { return kLayerTypes; }

std::string KeyPlace::text() const {
  return line == 0 ? fmt::format("--{}", path) : fmt::format("{}:{}: {}", file, line, path);
}

KeyPlace KeyPlace::at(const YamlNode::Entry& entry) const {
  return {file, file.empty() ? 0 : entry.line, path.empty() ? entry.key : fmt::format("{}.{}", path, entry.key)};
}

KeyPlace KeyPlace::at(size_t index) const { return {file, line, fmt::format("{}.{}", path, index)}; }

bool Range::holds(double value) const { return value <= most && (above_least ? value > least : value >= least); }

std::string Range::text() const {
  std::string out;
  if (std::isfinite(least)) out = fmt::format(" {} {}", above_least ? "above" : "of at least", least);
  if (std::isfinite(most)) out += fmt::format("{} at most {}", out.empty() ? " of" : " and", most);
  return out;
}

std::optional<bool> boolean_of(const YamlNode& node) {
  constexpr std::string_view kTrue[] = {"true", "yes", "on", "1"};
  constexpr std::string_view kFalse[] = {"false", "no", "off", "0"};
  if (node.kind != YamlNode::Kind::kScalar) return {};
  std::string text = node.text;
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  if (std::find(std::begin(kTrue), std::end(kTrue), text) != std::end(kTrue)) return true;
  if (std::find(std::begin(kFalse), std::end(kFalse), text) != std::end(kFalse)) return false;
  return {};
}

std::optional<double> number_of(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar) return {};
  std::string digits;
  for (size_t i = 0; i < node.text.size(); ++i) {
    const auto is_digit = [&](size_t at) {
      return at < node.text.size() && std::isdigit(static_cast<unsigned char>(node.text[at]));
    };
    if (node.text[i] == '_' && i > 0 && is_digit(i - 1) && is_digit(i + 1)) continue;
    digits += node.text[i];
  }
  const size_t start = digits.starts_with('+') && !digits.starts_with("+-") ? 1 : 0;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data() + start, digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value)) return {};
  return value;
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, bool& value) {
  const auto read = boolean_of(node);
  if (!read) throw input_error(place.text(), "expected true or false, got {}; write one of them", node.shown());
  value = *read;
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, int64_t& value) {
  const auto read = number_of(node);
  constexpr double kLargest = 9007199254740992;  // 2^53: every integer up to here is itself
  if (!read || *read != std::floor(*read) || std::abs(*read) > kLargest || !range.holds(*read)) {
    throw input_error(place.text(), "expected an integer{}, got {}; change the value", range.text(), node.shown());
  }
  value = static_cast<int64_t>(*read);
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, double& value) {
  const auto read = number_of(node);
  if (!read || !range.holds(*read)) {
    throw input_error(place.text(), "expected a number{}, got {}; change the value", range.text(), node.shown());
  }
  value = *read;
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, std::string& value) {
  value = scalar(node, place, "text").text;
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, DatasetType& value) {
  value = {.given = true};
  if (node.kind != YamlNode::Kind::kMap) {
    if (!node.is_null()) value.name = scalar(node, place, "the name of a type").text;
    return;
  }
  for (const auto& entry : node.entries) {
    const KeyPlace here = place.at(entry);
    const auto& known = data::kUserDefinedProperties;
    if (std::find(std::begin(known), std::end(known), entry.key) == std::end(known)) {
      const std::string_view near = nearest_name(entry.key, known);
      throw input_error(here.text(), "expected one of {}, got {}; {}", joined_names(known), quote(entry.key),
                        near.empty() ? "remove it" : fmt::format("did you mean {}?", near));
    }
    if (!entry.value.is_null()) value.properties[entry.key] = text_item(entry.value, here);
  }
  if (value.properties.empty())
    throw input_error(place.text(),
                      "expected a format or fields in the mapping, got none; write for example `format: "
                      "\"[INST] {{instruction}} [/INST]\"`");
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, std::vector<std::string>& value) {
  value.clear();
  if (node.kind == YamlNode::Kind::kScalar) {
    value.push_back(name_item(node, place));
    return;
  }
  if (node.kind == YamlNode::Kind::kMap) {
    throw input_error(place.text(), "expected a list, got a mapping; write `- value` lines or [a, b]");
  }
  for (size_t i = 0; i < node.items.size(); ++i) value.push_back(name_item(node.items[i], place.at(i)));
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, data::TemplateVariables& value) {
  (void)map_entries(node, place);
  value.json = json_of(node).dump();
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, std::map<std::string, std::string>& value) {
  value.clear();
  for (const auto& entry : map_entries(node, place)) {
    value[entry.key] = text_item(entry.value, place.at(entry));
  }
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range,
                std::map<std::string, std::vector<std::string>>& value) {
  value.clear();
  for (const auto& entry : map_entries(node, place)) {
    read_value(entry.value, place.at(entry), range, value[entry.key]);
  }
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<int64_t>& value) {
  value.clear();
  if (node.kind != YamlNode::Kind::kList) return read_value(node, place, range, value.emplace_back());
  for (size_t i = 0; i < node.items.size(); ++i) read_value(node.items[i], place.at(i), range, value.emplace_back());
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<double>& value) {
  value.clear();
  if (node.kind != YamlNode::Kind::kList) return read_value(node, place, range, value.emplace_back());
  for (size_t i = 0; i < node.items.size(); ++i) read_value(node.items[i], place.at(i), range, value.emplace_back());
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<PatternNumber>& value) {
  value.clear();
  for (const auto& entry : map_entries(node, place)) {
    PatternNumber& one = value.emplace_back(PatternNumber{.pattern = entry.key, .where = place.at(entry).text()});
    read_value(entry.value, place.at(entry), range, one.number);
  }
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, std::map<int64_t, std::string>& value) {
  value.clear();
  for (const auto& entry : map_entries(node, place)) {
    int64_t id = 0;
    read_value(YamlNode::scalar(entry.key), place.at(entry), {.least = 0, .most = INT32_MAX}, id);
    value[id] = text_item(entry.value, place.at(entry));
  }
}

void read_value(const YamlNode&, const KeyPlace&, const Range&, ForeignSection&) {}

std::string print_value(bool value) { return value ? "true" : "false"; }
std::string print_value(int64_t value) { return fmt::format("{}", value); }
std::string print_value(double value) { return fmt::format("{}", value); }
std::string print_value(const std::string& value) { return value; }
std::string print_value(const std::vector<std::string>& value) {
  return value.empty() ? "" : fmt::format("[{}]", fmt::join(value, ", "));
}

}  // namespace spillway::config
