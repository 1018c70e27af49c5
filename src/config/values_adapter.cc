// The words of adapters and their base, and the values of their keys that are no plain type.
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "config/module_pattern.h"
#include "config/values.h"

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

// transformers' quantization_config, by the names of its classes.
constexpr Word<StoredFormat> kStoredFormats[] = {
    {"none", StoredFormat::kAny}, {"Mxfp4Config", StoredFormat::kMxfp4}, {"FineGrainedFP8Config", StoredFormat::kFp8}};

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

// axolotl's relora_prune_method.
constexpr Word<PruneMethod> kPruneMethods[] = {
    {"magnitude", PruneMethod::kMagnitude}, {"random", PruneMethod::kRandom}, {"reset", PruneMethod::kReset}};

// axolotl's TorchAOQuantDType.
constexpr Word<FakeDtype> kFakeDtypes[] = {
    {"int4", FakeDtype::kInt4},  {"int8", FakeDtype::kInt8},     {"float8_e4m3fn", FakeDtype::kFloat8},
    {"fp8", FakeDtype::kFloat8}, {"float8", FakeDtype::kFloat8}, {"nvfp4", FakeDtype::kNvfp4},
    {"mxfp4", FakeDtype::kMxfp4}};

constexpr std::string_view kAllLinear = "all-linear";
constexpr std::string_view kIterations = "pissa_niter_";

// N of pissa_niter_N.
std::optional<int64_t> iterations_in(std::string_view text) {
  if (!text.starts_with(kIterations)) return {};
  text.remove_prefix(kIterations.size());
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && count >= 0 && count <= 1000;
  return is_number ? std::optional(count) : std::nullopt;
}

}  // namespace

std::span<const Word<Adapter>> words_of(Adapter) { return kAdapters; }
std::span<const Word<WeightCoding>> words_of(WeightCoding) { return kFourBitCodings; }
std::span<const Word<StoredFormat>> words_of(StoredFormat) { return kStoredFormats; }
std::span<const Word<LoraInit>> words_of(const LoraInit&) { return kLoraInits; }
std::span<const Word<PruneMethod>> words_of(PruneMethod) { return kPruneMethods; }
std::span<const Word<FakeDtype>> words_of(FakeDtype) { return kFakeDtypes; }

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, TargetModules& value) {
  value = {};
  std::vector<std::string> names;
  read_value(node, place, range, names);
  const bool is_text = node.kind == YamlNode::Kind::kScalar;
  if (names.size() != 1 || names[0] == kAllLinear || (!is_text && !is_module_pattern(names[0]))) {
    value.names = std::move(names);
    return;
  }
  const std::string& text = names[0];
  // A path has dots, which only a dot, literal or not, or a set can match.
  if (!is_module_pattern(text) && text.find('.') == std::string::npos) {
    throw input_error(place.text(),
                      "expected a list of names, or a pattern that whole paths match, got the text {}; write [{}]",
                      quote(text), text);
  }
  check_module_pattern(text, place.text());
  value.pattern = text;
}

std::string print_value(const TargetModules& value) {
  return value.pattern.empty() ? print_value(value.names) : value.pattern;
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, LoraInit& value) {
  const bool is_text = node.kind == YamlNode::Kind::kScalar;
  if (const auto iterations = is_text ? iterations_in(node.text) : std::nullopt) {
    value = {LoraStart::kPissa, iterations};
  } else {
    read_word(node, place, value);
  }
}

std::string print_value(const LoraInit& value) {
  if (value.iterations) return fmt::format("{}{}", kIterations, *value.iterations);
  return print_word(value);
}

std::string type_of(const LoraInit& value) { return words_type(value) + ", or pissa_niter_N"; }

}  // namespace spillway::config
