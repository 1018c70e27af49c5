#include "train/linear_storage.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "model/lora.h"
#include "model/storages/quantised.h"
#include "text/tokenizer/regex.h"

namespace spillway::train {
namespace {

constexpr std::string_view kSkipKey = "bnb_config_kwargs.llm_int8_skip_modules";

// As transformers decides which modules it converts (quantizers_utils.py).
void add_skipped(const ParameterTable& parameters, const std::string& entry,
                 std::set<std::string, std::less<>>& modules) {
  const text::Regex start(fmt::format(R"(^(?:{})(?:(?<=\.)|(?=\.|$)))", entry), kSkipKey);
  text::RegexScratch scratch;
  for (const Parameter& p : parameters) {
    if (p.role != ParameterRole::kLinear) continue;
    bool skips = p.module.ends_with(entry);
    start.find_all(p.module, scratch, [&](size_t, size_t) { skips = true; });
    if (skips) modules.insert(p.module);
  }
}

// As PEFT's loftq_init quantises: what is adapted, NF4 without nested scales, or int8.
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

}  // namespace

std::optional<LinearStorage> linear_storage(const config::Config& config, const ParameterTable& parameters,
                                            DType dtype) {
  const auto coded = std::find_if(parameters.begin(), parameters.end(),
                                  [](const Parameter& p) { return p.source.storage->is_coded(); });
  const bool has_codes = coded != parameters.end();
  if (has_codes && !config.adapter) {
    throw input_error(
        "base_model",
        "expected an adapter beside a quantised model, got none; set adapter: lora: quantised weights are "
        "not trained");
  }
  if (config.adapter && config.adapter->init.start == config::LoraStart::kLoftq && has_codes) {
    throw input_error(
        "peft_init_lora_weights",
        "expected a model whose files hold its weights, of which loftq takes what quantising loses, got {}; "
        "name the model before it was quantised",
        coded->source.storage->name());
  }
  if (config.adapter && config.adapter->loftq_bits)
    return loftq_storage(*config.adapter->loftq_bits, parameters, dtype);
  if (!config.quantisation) return {};
  const bool eight_bits = config.quantisation->coding == WeightCoding::kInt8;
  if (has_codes) {
    const std::string_view theirs = coded->source.storage->name();
    if ((theirs == name_of(WeightCoding::kInt8)) == eight_bits) return {};
    throw input_error(eight_bits ? "load_in_8bit" : "load_in_4bit",
                      "expected the format that the model's files have, {}, got another; remove the key", theirs);
  }
  LinearStorage result{.storage = quantised_storage({.coding = config.quantisation->coding,
                                                     .double_quant = config.quantisation->double_quant,
                                                     .weight_dtype = dtype})};
  for (const std::string& entry : config.quantisation->skip_modules)
    add_skipped(parameters, entry, result.dense_modules);
  return result;
}

}  // namespace spillway::train
