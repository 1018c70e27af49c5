// The model, its tokenizer, and what is trained of it.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

#include "base/text.h"
#include "config/programs.h"
#include "config/resolve.h"
#include "config/values.h"
#include "hub/repository.h"

namespace spillway::config {
namespace {

void ignore_adapter_keys(const Resolution& r) {
  for (const char* key : {"lora_r",
                          "lora_alpha",
                          "lora_dropout",
                          "lora_target_modules",
                          "lora_target_linear",
                          "lora_target_parameters",
                          "lora_modules_to_save",
                          "lora_fan_in_fan_out",
                          "peft_use_rslora",
                          "peft_use_dora",
                          "lora_rank_pattern",
                          "lora_alpha_pattern",
                          "peft_layers_to_transform",
                          "peft_layers_pattern",
                          "peft_init_lora_weights",
                          "peft.loftq_config.loftq_bits",
                          "loraplus_lr_ratio",
                          "loraplus_lr_embedding",
                          "relora_prune_method",
                          "relora_prune_ratio",
                          "relora_cpu_offload"}) {
    r.ignore(key, "adapter is off");
  }
}

constexpr const char* kLoftqBits = "peft.loftq_config.loftq_bits";

// The base of an adapter that starts, or has started, as LoftQ's is quantised, by load_in_4bit or load_in_8bit, or else
// by LoftQ's own bits.
void resolve_loftq_base(const Resolution& r, AdapterSettings& adapter) {
  const Spelled& keys = r.keys;
  const std::optional<int64_t>& bits = keys.loftq_bits;
  if (bits && *bits != 4 && *bits != 8)
    throw input_error(r.where(kLoftqBits), "expected 4 or 8, got {}; write one of them", *bits);
  if (keys.load_in_4bit || keys.load_in_8bit) return r.ignore(kLoftqBits, "the base is quantised already");
  if (bits || keys.peft_init_lora_weights.start == LoraStart::kLoftq) adapter.loftq_bits = bits.value_or(4);
}

// Resolves the initial values of a fresh adapter. The bits of LoftQ ask for it, as in axolotl.
void resolve_start(const Resolution& r, AdapterSettings& adapter) {
  const Spelled& keys = r.keys;
  adapter.init = keys.peft_init_lora_weights;
  resolve_loftq_base(r, adapter);
  if (keys.loftq_bits) {
    if (r.given("peft_init_lora_weights") && adapter.init.start != LoraStart::kLoftq) {
      throw input_error(r.where("peft_init_lora_weights"), "expected loftq beside {}, got {}; remove one", kLoftqBits,
                        print_value(adapter.init));
    }
    adapter.init = {LoraStart::kLoftq};
  }
  if (adapter.init.start == LoraStart::kPissa && (keys.load_in_4bit || keys.load_in_8bit)) {
    throw input_error(r.where("peft_init_lora_weights"),
                      "expected a base that is not quantised beside {}, as in PEFT, got one; use loftq",
                      print_value(adapter.init));
  }
}

// Settles the modules of an adapter, and the start of a fresh one. An adapter in a folder names its modules itself:
// these keys are compared with them (job/lora_options.h).
void resolve_modules_and_start(const Resolution& r, AdapterSettings& adapter) {
  const Spelled& keys = r.keys;
  adapter.dora = keys.peft_use_dora;
  adapter.rank_pattern = keys.lora_rank_pattern;
  for (const PatternNumber& rank : adapter.rank_pattern) {
    if (rank.number != std::floor(rank.number))
      throw input_error(rank.where, "expected an integer, got {}; change the value", rank.number);
  }
  adapter.alpha_pattern = keys.lora_alpha_pattern;
  adapter.layers_to_transform = keys.peft_layers_to_transform;
  adapter.layers_pattern = keys.peft_layers_pattern;
  if (adapter.model_dir.empty()) {
    resolve_start(r, adapter);
  } else {
    if (keys.peft_init_lora_weights.start != LoraStart::kLoftq)
      r.ignore("peft_init_lora_weights", "the adapter of lora_model_dir has started");
    resolve_loftq_base(r, adapter);
  }
  if (!adapter.layers_to_transform.empty() && !adapter.target_modules.pattern.empty()) {
    throw input_error(r.where("peft_layers_to_transform"),
                      "expected names in lora_target_modules beside it, got a pattern; name the layers in the pattern");
  }
  if (adapter.layers_to_transform.empty()) r.ignore("peft_layers_pattern", "peft_layers_to_transform is not there");
}

// Throws where weights are drawn anew beside a key that trains a part of a model, or something else than text.
void check_reinitialised(const Resolution& r) {
  const Spelled& keys = r.keys;
  for (const auto& [key, is_set] : {std::pair{"adapter", keys.adapter != Adapter::kNone},
                                    {"unfrozen_parameters", !keys.unfrozen_parameters.empty()},
                                    {"rl", keys.rl != Rl::kNone},
                                    {"reward_model", keys.reward_model},
                                    {"process_reward_model", keys.process_reward_model}}) {
    if (is_set)
      throw input_error(r.where("reinit_weights"), "expected a model that learns text, all of it, got {} beside it; {}",
                        key, "remove one");
  }
}

// Returns the settings of LISA; none where it is off.
std::optional<LisaSettings> resolve_lisa(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (!keys.lisa_n_layers && !keys.lisa_step_interval) {
    if (r.given("lisa_layers_attribute")) r.ignore("lisa_layers_attribute", "it belongs to a key that is off");
    return {};
  }
  const auto want = [&](const char* key, bool is_there, const char* other) {
    if (!is_there)
      throw input_error(r.where(other), "expected {} beside it, got none; write it, or remove {}", key, other);
  };
  want("lisa_step_interval", keys.lisa_step_interval.has_value(), "lisa_n_layers");
  want("lisa_n_layers", keys.lisa_n_layers.has_value(), "lisa_step_interval");
  for (const auto& [key, is_set] : {std::pair{"adapter", keys.adapter != Adapter::kNone},
                                    {"unfrozen_parameters", !keys.unfrozen_parameters.empty()},
                                    {"rl", keys.rl != Rl::kNone},
                                    {"reward_model", keys.reward_model},
                                    {"process_reward_model", keys.process_reward_model}})
    if (is_set)
      throw input_error(r.where("lisa_n_layers"),
                        "expected full fine-tuning that learns text, got {} beside it; remove one", key);
  return LisaSettings{*keys.lisa_n_layers, *keys.lisa_step_interval, keys.lisa_layers_attribute};
}

// Returns whether frozen weights, working copies and activations are bf16, apart from what asks for f16.
bool is_bf16(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (!keys.float32) return keys.bf16 != Bf16::kFalse;
  if (r.given("bf16") && (keys.bf16 == Bf16::kTrue || keys.bf16 == Bf16::kFull))
    throw input_error(r.where("float32"), "expected false beside bf16: {}, got true; remove one",
                      print_value(keys.bf16));
  if (keys.fp16 || keys.dtype == WeightType::kF16) {
    throw input_error(r.where("float32"), "expected false beside {}, got true; remove one",
                      keys.fp16 ? "fp16: true" : "dtype: float16");
  }
  return false;
}

// Returns whether f16 is asked for beside what bf16 says. Where both are true, bf16 wins in axolotl, and transformers
// refuses them.
bool asks_for_f16(const Resolution& r) {
  if (!r.keys.fp16) return false;
  const bool has_bf16 = r.given("bf16") && (r.keys.bf16 == Bf16::kTrue || r.keys.bf16 == Bf16::kFull);
  if (!has_bf16) return true;
  if (program_of(r.loaded) == Program::kTrl)
    throw input_error(r.where("fp16"), "expected bf16 or fp16, got both; remove one");
  r.ignore("fp16", "bf16 is there, and wins, as in axolotl");
  return false;
}

// The dtype of the files of a model that is trained whole; none where each weight stays as its base has it.
std::optional<DType> written_dtype(const Resolution& r, bool asks_for_f16) {
  switch (r.keys.dtype) {
    case WeightType::kF32:
      return DType::kF32;
    case WeightType::kBf16:
      if (asks_for_f16)
        throw input_error(r.where("dtype"), "expected float16 beside fp16: true, got bfloat16; remove one");
      return DType::kBF16;
    case WeightType::kF16:
      return DType::kF16;
    case WeightType::kAuto:
      break;
  }
  return asks_for_f16 ? std::optional(DType::kF16) : std::nullopt;
}

// Settles what is computed in and what is written. No kernel computes in f16: bf16 is the nearest, and has its range.
void resolve_dtypes(const Resolution& r, ModelSettings& model) {
  if (r.keys.dtype == WeightType::kBf16 && !is_bf16(r))
    throw input_error(r.where("dtype"), "expected bf16: true beside dtype: bfloat16, got false; remove one");
  const bool f16 = asks_for_f16(r);
  model.written_dtype = written_dtype(r, f16);
  const bool computes_f16 = f16 || r.keys.dtype == WeightType::kF16;
  model.bf16 = is_bf16(r) || computes_f16;
  model.masters = r.keys.bf16 != Bf16::kFull;
  if (!computes_f16) return;
  const auto spelled = r.loaded.spelled.find(f16 ? "fp16" : "dtype");
  r.note(fmt::format(
      "{}: f16 arithmetic is not computed; bf16 is{}", spelled == r.loaded.spelled.end() ? "fp16" : spelled->second,
      model.written_dtype == DType::kF16 && r.keys.adapter == Adapter::kNone ? ", and the model is written in f16"
                                                                             : ""));
}

// Throws InputError, as axolotl does, for a format of the files beside one of bitsandbytes that they would get.
void check_format(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (keys.model_quantization_config == StoredFormat::kAny && !keys.dequantize) return;
  if (!keys.load_in_4bit && !keys.load_in_8bit) return;
  throw input_error(r.where(keys.load_in_4bit ? "load_in_4bit" : "load_in_8bit"),
                    "expected false beside {}, got true; {}",
                    keys.dequantize ? "dequantize" : "model_quantization_config", "remove one");
}

// Returns true if TRL's trainer adds the load-balancing loss of a mixture where nothing says so.
bool adds_router_loss(const Resolution& r) {
  if (program_of(r.loaded) != Program::kTrl || r.keys.router_aux_loss_coef) return false;
  if (r.keys.reward_model || r.keys.process_reward_model) return false;
  constexpr Rl kAdding[] = {Rl::kNone, Rl::kDpo, Rl::kIpo, Rl::kKto, Rl::kGrpo, Rl::kGdpo, Rl::kRloo};
  return std::find(std::begin(kAdding), std::end(kAdding), r.keys.rl) != std::end(kAdding);
}

}  // namespace

ModelSettings resolve_model(const Resolution& r) {
  if (const std::string& revision = r.keys.revision; !revision.empty() && !hub::is_revision(revision))
    throw input_error(r.where("revision_of_model"), "expected a branch, a tag or a commit, got {}; correct it",
                      quote(revision));
  ModelSettings model{r.keys};
  model.config_overrides = r.keys.overrides_of_model_config.json;
  model.neftune_noise_alpha = r.keys.neftune_noise_alpha;
  model.adds_router_loss = adds_router_loss(r);
  model.qat = resolve_qat(r);
  resolve_dtypes(r, model);
  if (model.reinitialised) check_reinitialised(r);
  model.lisa = resolve_lisa(r);
  check_format(r);
  model.dequantize = r.keys.dequantize;
  const StoredFormat stored = model.dequantize ? StoredFormat::kAny : r.keys.model_quantization_config;
  if (stored == StoredFormat::kMxfp4) model.stored_coding = WeightCoding::kMxfp4;
  if (stored == StoredFormat::kFp8) model.stored_coding = WeightCoding::kFp8;
  if (r.keys.adapter == Adapter::kNone) {
    model.unfrozen_parameters = r.keys.unfrozen_parameters;
  } else {
    r.ignore("unfrozen_parameters", "beside an adapter the base is frozen");
  }
  return model;
}

TokenizerSettings resolve_tokenizer(const Resolution& r) {
  const Spelled& keys = r.keys;
  TokenizerSettings result{.folder = keys.tokenizer_config.empty() ? keys.base_model : keys.tokenizer_config,
                           .special_tokens = keys.special_tokens,
                           .knows_eos_token = !keys.eos_token.empty(),
                           .knows_pad_token = !keys.pad_token.empty(),
                           .resize_token_embeddings_to_32x = keys.resize_token_embeddings_to_32x};
  SpecialTokens& ours = result.special_tokens;
  for (const auto& [name, trl, own] :
       {std::tuple{"eos_token", &keys.eos_token, &ours.eos_token}, {"pad_token", &keys.pad_token, &ours.pad_token}}) {
    if (trl->empty()) continue;
    if (!own->empty() && *own != *trl) {
      throw input_error(r.where(name), "expected the token of special_tokens.{}, {}, got {}; remove one", name,
                        quote(*own), quote(*trl));
    }
    *own = *trl;
  }
  return result;
}

namespace {

// The restarts of an adapter; none without relora. Refuses what a restart has no meaning for: beside these, either the
// merged base would not be what the adapter was trained on, or axolotl has no restarts.
std::optional<RestartSettings> resolve_restarts(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (!keys.relora) {
    for (const char* key : {"relora_prune_method", "relora_prune_ratio", "relora_cpu_offload"})
      r.ignore(key, "relora is off");
    return {};
  }
  if (keys.jagged_restart_steps.count == 0)
    throw input_error(r.where("relora"), "expected jagged_restart_steps beside it, got none; set it, for example 150");
  const auto refuse = [&](bool is_set, const char* key, std::string_view what) {
    if (is_set)
      throw input_error(r.where(key), "expected none beside relora, which {}, got one; remove one of the two", what);
  };
  refuse(has_preferences(keys) || is_online(keys), "rl", "trains on texts alone, as in axolotl");
  refuse(keys.kd_trainer, "kd_trainer", "trains on texts alone, as in axolotl");
  refuse(keys.peft_use_dora, "peft_use_dora", "merges products of factors alone");
  refuse(keys.peft_init_lora_weights.start >= LoraStart::kPissa || keys.loftq_bits, "peft_init_lora_weights",
         "begins with factors whose product is zero");
  refuse(!keys.lora_modules_to_save.empty(), "lora_modules_to_save", "merges products of factors alone");
  refuse(!keys.lora_target_parameters.empty(), "lora_target_parameters", "merges adapters of linear layers alone");
  const double usual = keys.relora_prune_method == PruneMethod::kReset ? 0.999 : 0.9;
  return RestartSettings{.prune_method = keys.relora_prune_method,
                         .prune_ratio = keys.relora_prune_ratio.value_or(usual)};
}

}  // namespace

std::optional<AdapterSettings> resolve_adapter(const Resolution& r) {
  const Spelled& keys = r.keys;
  const bool has_adapter = keys.adapter != Adapter::kNone;
  if (keys.use_peft.value_or(has_adapter) != has_adapter && r.given("adapter")) {
    throw input_error(r.where("use_peft"), "expected the same as adapter, got {} and {}; remove one", *keys.use_peft,
                      print_value(keys.adapter));
  }
  if (!has_adapter) {
    if (!keys.lora_model_dir.empty()) {
      throw input_error(r.where("lora_model_dir"),
                        "expected adapter: lora beside lora_model_dir, got none; set adapter");
    }
    if (keys.relora)
      throw input_error(r.where("relora"), "expected an adapter beside it, got none; set adapter: lora, or remove it");
    ignore_adapter_keys(r);
    return {};
  }
  const bool is_fresh = keys.lora_model_dir.empty();
  if (!r.given("lora_r") && is_fresh) {
    throw input_error(r.where("adapter"), "expected lora_r beside adapter: lora, got none; set lora_r, for example 16");
  }
  AdapterSettings adapter{.r = keys.lora_r,
                          .alpha = keys.lora_alpha,
                          .dropout = disables_dropout(keys) ? 0 : keys.lora_dropout,
                          .rslora = keys.peft_use_rslora,
                          .says_dropout = r.given("lora_dropout") && !disables_dropout(keys),
                          .disables_dropout = disables_dropout(keys),
                          .target_modules = keys.lora_target_modules,
                          .target_linear = keys.lora_target_linear,
                          .target_parameters = keys.lora_target_parameters,
                          .loraplus_lr_ratio = keys.loraplus_lr_ratio,
                          .modules_to_save = keys.lora_modules_to_save,
                          .model_dir = keys.lora_model_dir,
                          .restarts = resolve_restarts(r)};
  if (disables_dropout(keys) && keys.lora_dropout > 0)
    r.ignore("lora_dropout", keys.rl == Rl::kPpo    ? "ppo trains without dropout, as in TRL"
                             : keys.disable_dropout ? "disable_dropout is true"
                                                    : "preferences are trained without dropout, as in TRL, where "
                                                      "disable_dropout is not false");
  r.ignore("loraplus_lr_embedding", "no adapter is on an embedding");
  resolve_modules_and_start(r, adapter);
  if (adapter.target_modules.names == std::vector<std::string>{"all-linear"}) {
    adapter.target_modules = {};
    adapter.target_linear = true;
  }
  if (!r.given("lora_alpha") && is_fresh) adapter.alpha = static_cast<double>(adapter.r);
  return adapter;
}

namespace {

// Throws InputError, as axolotl does, where experts cannot be quantised.
void check_quantised_experts(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (!keys.quantize_moe_experts) return;
  const std::string where = r.where("quantize_moe_experts");
  if (keys.adapter == Adapter::kNone)
    throw input_error(where, "expected an adapter beside quantised experts, which are not trained, got none; {}",
                      "set adapter: qlora, or remove the key");
  if (!keys.load_in_4bit && !keys.load_in_8bit)
    throw input_error(where, "expected load_in_4bit or load_in_8bit beside it, got neither; set one");
  if (keys.lora_target_linear)
    throw input_error(where, "expected lora_target_linear: false beside quantised experts, got true; {}",
                      "name modules in lora_target_modules");
}

}  // namespace

std::optional<QuantisationSettings> resolve_quantisation(const Resolution& r) {
  const Spelled& keys = r.keys;
  const bool four_bits = keys.load_in_4bit, eight_bits = keys.load_in_8bit;
  if (four_bits && eight_bits)
    throw input_error(r.where("load_in_8bit"), "expected load_in_4bit or load_in_8bit, got both; remove one");
  if (keys.adapter == Adapter::kQlora && !four_bits) {
    throw input_error(r.where("adapter"),
                      "expected load_in_4bit: true beside adapter: qlora, got {}; set it, or adapter: "
                      "lora",
                      eight_bits ? "load_in_8bit" : "none");
  }
  const std::string_view width = four_bits ? "load_in_4bit" : "load_in_8bit";
  if ((four_bits || eight_bits) && keys.adapter == Adapter::kNone) {
    throw input_error(r.where(width),
                      "expected an adapter beside {}, got none; set adapter: {}: quantised weights are "
                      "not trained",
                      width, four_bits ? "qlora" : "lora");
  }
  check_quantised_experts(r);
  for (const char* name : {"bnb_config_kwargs.bnb_4bit_quant_type", "bnb_config_kwargs.bnb_4bit_use_double_quant"}) {
    if (!four_bits) r.ignore(name, "load_in_4bit is off");
  }
  if (!four_bits && !eight_bits) {
    r.ignore("bnb_config_kwargs.llm_int8_skip_modules", "load_in_4bit and load_in_8bit are off");
    return {};
  }
  return QuantisationSettings{.coding = eight_bits ? WeightCoding::kInt8 : keys.bnb_quant_type,
                              .double_quant = keys.bnb_use_double_quant,
                              .has_experts = keys.quantize_moe_experts,
                              .skip_modules = keys.bnb_skip_modules};
}

SaidQuantisation said_quantisation(const Resolution& r) {
  const Spelled& keys = r.keys;
  const auto said = [&](const char* key, auto value) {
    std::optional<SaidValue<decltype(value)>> result;
    if (r.given(key)) result = {std::move(value), r.where(key)};
    return result;
  };
  return {.quant_type = said("bnb_config_kwargs.bnb_4bit_quant_type", keys.bnb_quant_type),
          .double_quant = said("bnb_config_kwargs.bnb_4bit_use_double_quant", keys.bnb_use_double_quant),
          .skip_modules = said("bnb_config_kwargs.llm_int8_skip_modules", keys.bnb_skip_modules)};
}

}  // namespace spillway::config
