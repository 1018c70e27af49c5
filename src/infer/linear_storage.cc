#include "infer/linear_storage.h"

#include <algorithm>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "config/values.h"
#include "model/lora.h"
#include "model/quantised/base_format.h"
#include "model/storages/fp8.h"
#include "model/storages/quantised.h"
#include "model/storages/quantised_files.h"
#include "text/tokenizer/regex.h"

namespace spillway::infer {
namespace {

constexpr std::string_view kSkipKey = "bnb_config_kwargs.llm_int8_skip_modules";

// Throws InputError if the config says of mxfp4 or fp8 what is not so of the files.
void check_format(const config::ModelSettings& model, const Parameter* coded) {
  const std::string_view theirs = coded == nullptr ? "dense weights" : coded->source.storage->name();
  if (model.stored_coding && theirs != name_of(*model.stored_coding))
    throw input_error("model_quantization_config", "expected a model whose files hold weights in {}, got {}; {}",
                      name_of(*model.stored_coding), theirs, "remove the key");
  if (model.dequantize && coded != nullptr && !is_of_files(theirs))
    throw input_error("dequantize", "expected a model whose files hold weights in mxfp4 or fp8, got {}; {}", theirs,
                      "remove the key");
}

// Calls visit(parameter) for the modules that an entry of llm_int8_skip_modules matches, by transformers' rule
// (quantizers_utils.py).
template <typename Visit>
void for_skipped(const ParameterTable& parameters, const std::string& entry, const Visit& visit) {
  const text::Regex start(fmt::format(R"(^(?:{})(?:(?<=\.)|(?=\.|$)))", entry), kSkipKey);
  text::RegexScratch scratch;
  for (const Parameter& p : parameters) {
    bool skips = p.module.ends_with(entry);
    start.find_all(p.module, scratch, [&](size_t, size_t) { skips = true; });
    if (skips) visit(p);
  }
}

void add_skipped(const ParameterTable& parameters, const std::string& entry,
                 std::set<std::string, std::less<>>& modules) {
  for_skipped(parameters, entry, [&](const Parameter& p) {
    if (p.role == ParameterRole::kLinear) modules.insert(p.module);
    if (p.role == ParameterRole::kExpert) modules.emplace(experts_module(p.module));
  });
}

// Returns the first weight whose files hold codes; null if there is none.
const Parameter* find_coded(const ParameterTable& parameters) {
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [](const Parameter& p) { return p.source.storage->is_coded(); });
  return found == parameters.end() ? nullptr : &*found;
}

template <typename Said>
void check_same(const Said& said, const decltype(Said::value)& theirs) {
  if (said.value == theirs) return;
  throw input_error(said.where, "expected {}, as the model's files are quantised, got {}; remove the key",
                    config::print_value(theirs), config::print_value(said.value));
}

// Throws InputError unless the modules that the config excludes are those that have no codes in the files.
void check_same_modules(const config::SaidValue<std::vector<std::string>>& said, const ParameterTable& parameters) {
  std::set<std::string, std::less<>> named;
  for (const std::string& entry : said.value) add_skipped(parameters, entry, named);
  for (const Parameter& p : parameters) {
    if (p.role != ParameterRole::kLinear || !p.is_of_model()) continue;
    const bool has_codes = p.source.storage->is_coded(), is_named = named.contains(p.module);
    if (has_codes != is_named) continue;
    throw input_error(said.where, "expected the modules without codes in the model's files, got {}, which has {}; {}",
                      is_named ? p.module : fmt::format("none of {}", p.module), has_codes ? "some" : "none there",
                      "remove the key");
  }
}

// Throws InputError if the config contradicts the quantised format of the files, whether or not it asks for one.
void check_said(const config::SaidQuantisation& said, const ParameterTable& parameters, const Storage& storage) {
  const std::optional<QuantisedFormat> format = stored_format(storage);
  if (format && format->coding != WeightCoding::kInt8) {
    if (said.quant_type) check_same(*said.quant_type, format->coding);
    if (said.double_quant) check_same(*said.double_quant, format->double_quant);
  }
  if (said.skip_modules) check_same_modules(*said.skip_modules, parameters);
}

bool has_experts(const ParameterTable& parameters) {
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const Parameter& p) { return p.role == ParameterRole::kExpert; });
}

// Says what the experts take of a base whose linear layers are quantised, where they are not; or nothing.
std::string note_on_experts(const ParameterTable& parameters) {
  int64_t bytes = 0;
  bool is_coded = false;
  DType dtype = DType::kF32;
  for (const Parameter& p : parameters) {
    is_coded |= p.storage->is_coded();
    if (p.role != ParameterRole::kExpert) continue;
    if (p.storage->is_coded()) return {};
    bytes += p.shape.elems() * size_of(p.dtype);
    dtype = p.dtype;
  }
  if (!is_coded || bytes == 0) return {};
  const std::string_view remedy =
      find_coded(parameters) == nullptr ? "; quantize_moe_experts: true quantises them, too" : "";
  return fmt::format("experts stay in {} and take {}{}", name_of(dtype), format_bytes(bytes), remedy);
}

// Returns the storage of PEFT's loftq_init: adapted layers in NF4 without nested scales, or in int8.
LinearStorage loftq_storage(int64_t bits, const ParameterTable& parameters, DType dtype) {
  LinearStorage result{.storage = quantised_storage({.coding = bits == 8 ? WeightCoding::kInt8 : WeightCoding::kNf4,
                                                     .double_quant = false,
                                                     .weight_dtype = dtype})};
  for (const Parameter& p : parameters) {
    const bool is_adapted = parameters.find(lora_name(p.module, 'A')) != nullptr;
    if (p.role == ParameterRole::kLinear && !is_adapted) result.dense_modules.insert(p.module);
  }
  return result;
}

std::string skips_nothing(const std::string& entry) {
  return fmt::format(
      "{}: {} is neither the start nor the end of a module's path, and leaves nothing out; write a whole one, such as "
      "model.layers.0, or its end, such as down_proj",
      kSkipKey, quote(entry));
}

}  // namespace

bool is_of_files(std::string_view storage) {
  return storage == name_of(WeightCoding::kMxfp4) || storage == name_of(WeightCoding::kFp8);
}

std::optional<LinearStorage> linear_storage(const config::Config& config, const ParameterTable& parameters,
                                            DType dtype) {
  const Parameter* coded = find_coded(parameters);
  const bool has_codes = coded != nullptr;
  if (config.adapter && config.adapter->init.start == config::LoraStart::kLoftq && has_codes) {
    throw input_error(
        "peft_init_lora_weights",
        "expected a model whose files hold its weights, of which loftq takes what quantising loses, got {}; "
        "name the model before it was quantised",
        coded->source.storage->name());
  }
  if (config.model.dequantize && has_codes) return LinearStorage{};
  if (config.adapter && config.adapter->loftq_bits)
    return loftq_storage(*config.adapter->loftq_bits, parameters, dtype);
  if (has_codes) check_said(config.said_quantisation, parameters, *coded->source.storage);
  if (!config.quantisation) return {};
  const bool eight_bits = config.quantisation->coding == WeightCoding::kInt8;
  if (has_codes && config.quantisation->has_experts && has_experts(parameters))
    throw input_error("quantize_moe_experts",
                      "expected a model whose files hold its weights, got {}; name the model before it was quantised",
                      coded->source.storage->name());
  if (has_codes) {
    const std::string_view theirs = coded->source.storage->name();
    const bool has_eight_bits = theirs == name_of(WeightCoding::kInt8);
    if (!is_of_files(theirs) && has_eight_bits == eight_bits) return {};
    throw input_error(eight_bits ? "load_in_8bit" : "load_in_4bit",
                      "expected the format that the model's files have, {}, got another; remove the key", theirs);
  }
  LinearStorage result{.storage = quantised_storage({.coding = config.quantisation->coding,
                                                     .double_quant = config.quantisation->double_quant,
                                                     .weight_dtype = dtype}),
                       .has_experts = config.quantisation->has_experts};
  for (const std::string& entry : config.quantisation->skip_modules)
    add_skipped(parameters, entry, result.dense_modules);
  return result;
}

std::vector<std::string> notes_on_base(const config::Config& config, const ParameterTable& parameters) {
  std::vector<std::string> notes;
  if (config.quantisation) {
    for (const std::string& entry : config.quantisation->skip_modules) {
      // A tied head is the embedding, which is always dense, like other parts of the model.
      bool is_known = entry == "lm_head" || parameters.has_other_parts();
      for_skipped(parameters, entry, [&](const Parameter&) { is_known = true; });
      if (!is_known) notes.push_back(skips_nothing(entry));
    }
  }
  if (config.quantisation && config.quantisation->has_experts && !has_experts(parameters))
    notes.emplace_back("ignored: quantize_moe_experts (the model has no experts)");
  if (config.model.dequantize && find_coded(parameters) == nullptr)
    notes.emplace_back("ignored: dequantize (the model's files hold its weights)");
  if (const Parameter* coded = find_coded(parameters); coded != nullptr && has_input_scales(*coded->source.storage))
    notes.emplace_back("ignored: scales of inputs in the model's files (inputs are not rounded to FP8)");
  if (std::string note = note_on_experts(parameters); !note.empty()) notes.push_back(std::move(note));
  if (!config.adapter || config.adapter->model_dir.empty()) return notes;
  if (const auto change = find_base_change(config.adapter->model_dir, parameters))
    notes.push_back(fmt::format("warning: lora_model_dir: {}", change->text(config.adapter->model_dir)));
  return notes;
}

void check_base(const config::Config& config, const ParameterTable& parameters) {
  const Parameter* coded = find_coded(parameters);
  check_format(config.model, coded);
  if (config.adapter || config.model.dequantize || coded == nullptr) return;
  throw input_error("base_model",
                    "expected an adapter beside a quantised model, got none; set adapter: lora{}: quantised weights "
                    "are not trained",
                    is_of_files(coded->source.storage->name()) ? ", or dequantize: true" : "");
}

}  // namespace spillway::infer
