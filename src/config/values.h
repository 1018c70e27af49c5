// Reads and prints the values of config keys, with an overload a type: the table of keys is made of these.
//
// read_value(node, place, range, value) throws InputError `[place] expected X, got Y; do Z`. A null node gets here only
// for a key that takes one: any other empty key leaves its default.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "config/spelled.h"
#include "config/verdict.h"
#include "config/yaml.h"

namespace spillway::config {

// Where a value stands: `c.yml:3: datasets.0.path`, or `--datasets.0.path` where it comes from the command line.
struct KeyPlace {
  std::string file;
  int line = 0;  // 0: the command line
  std::string path;

  [[nodiscard]] std::string text() const;
  // One step further into a mapping or a list.
  [[nodiscard]] KeyPlace at(const YamlNode::Entry& entry) const;
  [[nodiscard]] KeyPlace at(size_t index) const;
};

// Bounds of a number, both included unless said.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;  // `least` itself is excluded

  [[nodiscard]] bool holds(double value) const;
  [[nodiscard]] std::string text() const;  // " of at least 1"; empty without bounds
};

// A word that an enumeration key takes. With a note, the word is known but not yet done; a value is then the nearest
// that is, so that the other keys can be checked beside it.
template <typename E>
struct Word {
  std::string_view name;
  std::optional<E> value;
  std::string_view note{};
};

// The words of each enumeration; the first of a value is the one that is printed.
[[nodiscard]] std::span<const Word<Adapter>> words_of(Adapter);
[[nodiscard]] std::span<const Word<WeightCoding>> words_of(WeightCoding);
[[nodiscard]] std::span<const Word<StoredFormat>> words_of(StoredFormat);
[[nodiscard]] std::span<const Word<LoraInit>> words_of(const LoraInit&);
[[nodiscard]] std::span<const Word<PruneMethod>> words_of(PruneMethod);
[[nodiscard]] std::span<const Word<FakeDtype>> words_of(FakeDtype);
[[nodiscard]] std::span<const Word<Optimizer>> words_of(Optimizer);
[[nodiscard]] std::span<const Word<LrScheduler>> words_of(LrScheduler);
[[nodiscard]] std::span<const Word<Rl>> words_of(Rl);
[[nodiscard]] std::span<const Word<FDivergence>> words_of(FDivergence);
[[nodiscard]] std::span<const Word<RatioLevel>> words_of(RatioLevel);
[[nodiscard]] std::span<const Word<RewardScale>> words_of(RewardScale);
[[nodiscard]] std::span<const Word<RewardAggregation>> words_of(RewardAggregation);
[[nodiscard]] std::span<const Word<KlEstimator>> words_of(KlEstimator);
[[nodiscard]] std::span<const Word<data::WeightingScheme>> words_of(data::WeightingScheme);
[[nodiscard]] std::span<const Word<VideoCheckpointing>> words_of(VideoCheckpointing);
[[nodiscard]] std::span<const Word<MixedPrecision>> words_of(MixedPrecision);
[[nodiscard]] std::span<const Word<AutoBool>> words_of(AutoBool);
[[nodiscard]] std::span<const Word<Bf16>> words_of(Bf16);
[[nodiscard]] std::span<const Word<WeightType>> words_of(WeightType);
[[nodiscard]] std::span<const Word<Checkpointing>> words_of(Checkpointing);
[[nodiscard]] std::span<const Word<ExcessLength>> words_of(ExcessLength);
[[nodiscard]] std::span<const Word<TruncationMode>> words_of(TruncationMode);
[[nodiscard]] std::span<const Word<TrainOnEos>> words_of(TrainOnEos);
[[nodiscard]] std::span<const Word<IntervalStrategy>> words_of(IntervalStrategy);
[[nodiscard]] std::span<const Word<SaveStrategy>> words_of(SaveStrategy);
[[nodiscard]] std::span<const Word<HubStrategy>> words_of(HubStrategy);
[[nodiscard]] std::span<const Word<PlanMode>> words_of(PlanMode);
[[nodiscard]] std::span<const Word<PackingStrategy>> words_of(PackingStrategy);
[[nodiscard]] std::span<const Word<PackingScope>> words_of(PackingScope);
[[nodiscard]] std::span<const Word<MicroBatchOrder>> words_of(MicroBatchOrder);
[[nodiscard]] std::span<const Word<SamplingStrategy>> words_of(SamplingStrategy);
[[nodiscard]] std::span<const Word<ZeroStage>> words_of(ZeroStage);
[[nodiscard]] std::span<const Word<GradientReduction>> words_of(GradientReduction);
[[nodiscard]] std::span<const Word<ActivationOffloading>> words_of(ActivationOffloading);
[[nodiscard]] std::span<const Word<LayerOffloading>> words_of(LayerOffloading);
[[nodiscard]] std::span<const Word<Offload>> words_of(Offload);
[[nodiscard]] std::span<const Word<SavedOutputs>> words_of(SavedOutputs);
[[nodiscard]] std::span<const Word<LayerType>> words_of(LayerType);

// The truth value of true, yes, on, 1 and their opposites in any case; none for anything else.
[[nodiscard]] std::optional<bool> boolean_of(const YamlNode& node);
// A finite number as Python reads one (`2e-4`, `1_000`, `.5`), in quotes or not; none for anything else.
[[nodiscard]] std::optional<double> number_of(const YamlNode& node);

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, bool& value);
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, int64_t& value);
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, StepsOrFalse& value);
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, double& value);
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::string& value);
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, DatasetType& value);
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, data::TemplateVariables& value);
// One text is a list of it. A number or a truth value, unless in quotes, is no text.
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<std::string>& value);
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range,
                std::map<std::string, std::string>& value);
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range,
                std::map<std::string, std::vector<std::string>>& value);
// One number is a list of it.
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<int64_t>& value);
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<double>& value);
// A mapping from patterns to numbers.
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<PatternNumber>& value);
// Keys are ids of tokens.
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::map<int64_t, std::string>& value);
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<SpelledDataset>& value);
// A list of mappings, each with name, modules and lr.
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<LrGroup>& value);

// A list is one of names, unless its only item is a pattern, as in TRL; a text is a pattern or `all-linear`.
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, TargetModules& value);
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, SelectiveCheckpointing& value);
// Also a list, whose items are those of devices 0, 1, ...
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, MaxMemory& value);
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, ForeignSection& value);
// A mapping of anything.
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, ConfigOverrides& value);
// One entry is a list of it. Throws NotYetError for a reward model, which is in the list all the same.
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range,
                std::vector<rewards::RewardEntry>& value);
// A mapping, or transformers' "a=1,b=2"; values are numbers or truth values, in quotes or not.
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, OptimArgs& value);
// A mapping, also as JSON text, as TRL takes it.
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, SchedulerArgs& value);

// A word, or pissa_niter_N.
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, LoraInit& value);

[[nodiscard]] std::string print_value(bool value);
[[nodiscard]] std::string print_value(int64_t value);
[[nodiscard]] inline std::string print_value(StepsOrFalse value) { return print_value(value.count); }
[[nodiscard]] std::string print_value(double value);
[[nodiscard]] std::string print_value(const std::string& value);
[[nodiscard]] std::string print_value(const std::vector<std::string>& value);
[[nodiscard]] std::string print_value(const TargetModules& value);
[[nodiscard]] std::string print_value(const LoraInit& value);
[[nodiscard]] std::string print_value(const SelectiveCheckpointing& value);
[[nodiscard]] std::string print_value(const std::vector<int64_t>& value);
[[nodiscard]] std::string print_value(const std::vector<double>& value);
[[nodiscard]] std::string print_value(const std::vector<PatternNumber>& value);
[[nodiscard]] std::string print_value(const std::vector<LrGroup>& value);
[[nodiscard]] std::string print_value(const OptimArgs& value);
[[nodiscard]] std::string print_value(const SchedulerArgs& value);
[[nodiscard]] inline std::string print_value(const ConfigOverrides& value) { return value.json; }
[[nodiscard]] inline std::string print_value(const data::TemplateVariables& value) { return value.json; }
template <typename T, typename... Others>
concept OneOf = (std::is_same_v<T, Others> || ...);
// These have no short form.
template <OneOf<DatasetType, MaxMemory, ForeignSection> T>
[[nodiscard]] std::string print_value(const T&) {
  return "";
}
template <typename T>
[[nodiscard]] std::string print_value(const std::vector<T>&) {
  return "";
}
template <typename K, typename T>
[[nodiscard]] std::string print_value(const std::map<K, T>&) {
  return "";
}

[[nodiscard]] inline std::string type_of(bool) { return "true or false"; }
[[nodiscard]] inline std::string type_of(int64_t) { return "integer"; }
[[nodiscard]] inline std::string type_of(StepsOrFalse) { return "integer or false"; }
[[nodiscard]] inline std::string type_of(double) { return "number"; }
[[nodiscard]] inline std::string type_of(const std::string&) { return "text"; }
[[nodiscard]] inline std::string type_of(const DatasetType&) { return "text or a mapping"; }
[[nodiscard]] std::string type_of(const LoraInit& value);
[[nodiscard]] inline std::string type_of(const TargetModules&) { return "list of texts, pattern or all-linear"; }
[[nodiscard]] inline std::string type_of(const SelectiveCheckpointing&) { return "true, false or a mapping"; }
[[nodiscard]] inline std::string type_of(const ForeignSection&) { return "section"; }
[[nodiscard]] inline std::string type_of(const std::vector<std::string>&) { return "list of texts"; }
[[nodiscard]] inline std::string type_of(const std::vector<int64_t>&) { return "list of integers"; }
[[nodiscard]] inline std::string type_of(const std::vector<double>&) { return "list of numbers"; }
[[nodiscard]] inline std::string type_of(const std::vector<SpelledDataset>&) { return "list of mappings"; }
[[nodiscard]] inline std::string type_of(const std::vector<LrGroup>&) { return "list of mappings"; }
[[nodiscard]] inline std::string type_of(const std::vector<rewards::RewardEntry>&) { return "list of functions"; }
template <
    OneOf<data::TemplateVariables, ConfigOverrides, MaxMemory, OptimArgs, SchedulerArgs, std::vector<PatternNumber>> T>
[[nodiscard]] std::string type_of(const T&) {
  return "mapping";
}
template <typename K, typename T>
[[nodiscard]] std::string type_of(const std::map<K, T>&) {
  return "mapping";
}

// Enumerations and optionals, from the above.

template <typename E>
concept Enumeration = std::is_enum_v<E> || std::is_same_v<E, Optimizer> || std::is_same_v<E, LrScheduler>;

// Returns the words of a type that has some: "a, b or c".
template <typename E>
[[nodiscard]] std::string words_type(const E& value) {
  std::vector<std::string_view> names;
  for (const Word<E>& word : words_of(value)) {
    if (word.note.empty()) names.push_back(word.name);
  }
  return joined_names(names);
}

template <typename E>
[[nodiscard]] std::string print_word(const E& value) {
  for (const Word<E>& word : words_of(value)) {
    if (word.value == value) return std::string(word.name);
  }
  return "";
}

// Returns the advice about a word that is known, but not yet done: another objective is no way out.
template <typename E>
[[nodiscard]] constexpr std::string_view advice_beside(const E&) {
  return std::is_same_v<E, Rl> ? "" : ", choose another";
}

template <typename E>
void read_word(const YamlNode& node, const KeyPlace& place, E& value) {
  const auto words = words_of(value);
  // YAML's false and true stand for the words that people write for them.
  std::string text = node.kind == YamlNode::Kind::kScalar ? node.text : "";
  std::vector<std::string_view> names;
  for (const Word<E>& word : words) {
    names.push_back(word.name);
    const auto meant = boolean_of(node), said = boolean_of(YamlNode::scalar(std::string(word.name)));
    if (text != word.name && !(meant && said && *meant == *said)) continue;
    const E before = value;
    if (word.value) value = *word.value;
    if (word.note.empty()) return;
    throw NotYetError(fmt::format("[{}] expected {}, got {}; {} not yet supported{}", place.text(), words_type(before),
                                  node.shown(), word.note, advice_beside(before)));
  }
  const std::string_view near = nearest_name(text, names);
  throw input_error(place.text(), "expected {}, got {}; {}", words_type(value), node.shown(),
                    near.empty() ? "write one of these" : fmt::format("did you mean {}?", near));
}

template <Enumeration E>
[[nodiscard]] std::string type_of(E value) {
  return words_type(value);
}
template <Enumeration E>
[[nodiscard]] std::string print_value(E value) {
  return print_word(value);
}
template <Enumeration E>
void read_value(const YamlNode& node, const KeyPlace& place, const Range&, E& value) {
  read_word(node, place, value);
}

template <typename T>
[[nodiscard]] std::string type_of(const std::optional<T>&) {
  return type_of(T{});
}
template <typename T>
[[nodiscard]] std::string print_value(const std::optional<T>& value) {
  return value ? print_value(*value) : "";
}
// A number that may be left out may also be `auto`, which is the same.
template <typename T>
void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::optional<T>& value) {
  if (OneOf<T, int64_t, double> && node.kind == YamlNode::Kind::kScalar && node.text == "auto") return value.reset();
  T read{};
  read_value(node, place, range, read);
  value = std::move(read);
}

// Reads, prints and names the values of a type, behind functions of one shape.
struct ValueType {
  void (*read)(const YamlNode& node, const KeyPlace& place, const Range& range, void* value);
  std::string (*print)(const void* value);
  std::string (*name)();  // "integer", "true or false"
};
template <typename T>
inline constexpr ValueType kValueType = {
    [](const YamlNode& node, const KeyPlace& place, const Range& range, void* value) {
      read_value(node, place, range, *static_cast<T*>(value));
    },
    [](const void* value) -> std::string { return print_value(*static_cast<const T*>(value)); },
    []() -> std::string { return type_of(T{}); }};

}  // namespace spillway::config
