#include "config/keys.h"

namespace spillway::config {
namespace {

KeySection model_section() {
  KeySection section{"Model", {}};
  section.keys = {
      key<&Config::base_model>("base_model", "the model: a Hugging Face folder on this machine")
          .alias({"model_name_or_path"})
          .required(),
      key<&Config::tokenizer_config>("tokenizer_config", "a folder with another tokenizer than the model's"),
      key<&Config::special_tokens, &SpecialTokens::bos_token>("special_tokens.bos_token",
                                                              "replaces the tokenizer's; a new one is added"),
      key<&Config::special_tokens, &SpecialTokens::eos_token>("special_tokens.eos_token",
                                                              "replaces the tokenizer's; a new one is added"),
      key<&Config::special_tokens, &SpecialTokens::pad_token>("special_tokens.pad_token",
                                                              "replaces the tokenizer's; a new one is added"),
      key<&Config::special_tokens, &SpecialTokens::unk_token>("special_tokens.unk_token",
                                                              "replaces the tokenizer's; a new one is added"),
      key<&Config::special_tokens, &SpecialTokens::additional_special_tokens>(
          "special_tokens.additional_special_tokens", "more special tokens; new ones are added to the vocabulary"),
      key<&Config::eos_token>("eos_token", "TRL's: replaces the tokenizer's by another token of the vocabulary"),
      key<&Config::pad_token>("pad_token", "TRL's: replaces the tokenizer's by another token of the vocabulary"),
      key<&Config::special_tokens, &SpecialTokens::tokens>("tokens", "plain tokens added to the vocabulary")
          .alias({"add_tokens"}),
      key<&Config::special_tokens, &SpecialTokens::overrides>("added_tokens_overrides",
                                                              "other texts for added tokens, by id"),
      key<&Config::resize_token_embeddings_to_32x>("resize_token_embeddings_to_32x",
                                                   "the embedding's rows are a multiple of 32"),
      not_yet("shrink_embeddings", "a smaller vocabulary"),
      not_yet("reinit_weights", "training from fresh weights"),
      not_yet("overrides_of_model_config", "other values than those of config.json")
          .alias({"model_config"})
          .advise("write them into the model's config.json"),
      not_yet("model_init_kwargs", "other values than those of config.json")
          .advise("write them into the model's config.json"),
      refused("base_model_config", "config.json is read from the model's folder").advise(kLeaveOut),
      refused("rope_scaling", "axolotl dropped it").advise("write it into the model's config.json"),
      refused("is_encoder_decoder", "models here are decoders"),
      refused("use_onebitllms", "models with ternary weights are not read"),
  };
  add_refused(section, "models here read text",
              {"processor_type", "processor_kwargs", "is_multimodal", "image_size", "image_resize_algorithm",
               "freeze_mm_modules", "role_boundaries"});
  add_not_yet(section, "norms in f32 beside bf16 weights", {"fp32_norms", "fp32_norm_classes"});
  add_ignored(
      section, "model and tokenizer are what config.json and tokenizer.json say",
      {"model_type", "type_of_model", "cls_model_config", "tokenizer_type", "tokenizer_use_fast", "tokenizer_legacy",
       "tokenizer_use_mistral_common", "tokenizer_save_jinja_files", "is_falcon_derived_model",
       "is_llama_derived_model", "is_mistral_derived_model", "is_qwen_derived_model"});
  add_ignored(
      section, "models are folders on this machine and run no code of their own",
      {"trust_remote_code", "model_revision", "revision_of_model", "hf_use_auth_token", "overrides_of_model_kwargs",
       "model_kwargs", "experimental_skip_move_to_device", "mean_resizing_embeddings"});
  return section;
}

KeySection adapter_section() {
  KeySection section{"Adapter", {}};
  section.keys = {
      key<&Config::adapter>("adapter", "what is trained: all weights, or a LoRA adapter"),
      key<&Config::use_peft>("use_peft",
                             "TRL's: adapter: lora, with TRL's defaults of lora_r, lora_alpha, lora_dropout"),
      key<&Config::lora_r>("lora_r", "rank of the adapter").least(1).most(65536),
      key<&Config::lora_alpha>("lora_alpha", "the adapter's product is scaled by alpha / r; left out: r").above(0),
      key<&Config::lora_dropout>("lora_dropout", "share of the adapter's inputs that is dropped").least(0).most(0.999),
      key<&Config::lora_target_modules>("lora_target_modules",
                                        "names of the modules that get an adapter, or one pattern that their whole "
                                        "paths match; left out: q_proj and v_proj"),
      key<&Config::lora_target_linear>("lora_target_linear", "every linear module but the head gets an adapter"),
      key<&Config::lora_modules_to_save>("lora_modules_to_save",
                                         "ends of the paths of modules that are trained in full beside the adapter and "
                                         "saved with it: embed_tokens, lm_head, norm, ..."),
      key<&Config::lora_model_dir>("lora_model_dir", "an adapter's folder to start from"),
      key<&Config::peft_use_rslora>("peft_use_rslora", "scale by alpha / sqrt(r)").alias({"use_rslora"}),
      not_yet("lora_target_parameters", "adapters of bare parameters"),
      not_yet("peft_layers_to_transform", "adapters of some layers only"),
      not_yet("peft_layers_pattern", "adapters of some layers only"),
      not_yet("peft_use_dora", "weight-decomposed adapters (DoRA)").alias({"use_dora"}),
      not_yet("peft_init_lora_weights", "other initial adapter weights").or_values({"true"}),
      not_yet("peft_layer_replication", "repeated layers"),
      not_yet("peft_trainable_token_indices", "training single tokens' embeddings"),
      not_yet("peft_ensure_weight_tying", "tied adapters"),
      not_yet("peft_autocast_adapter_dtype", "adapters below f32").advise("remove the key for f32").or_values({"true"}),
      not_yet("peft.loftq_config.loftq_bits", "adapters of quantised weights"),
      not_yet("lora_rank_pattern", "another rank for some modules"),
      not_yet("lora_alpha_pattern", "another scale for some modules"),
      not_yet("loraplus_lr_ratio", "another learning rate for B (LoRA+)"),
      not_yet("loraplus_lr_embedding", "another learning rate for embeddings (LoRA+)").or_values({"1e-6", "0.000001"}),
      not_yet("relora", "restarts of the adapter"),
      not_yet("relora_steps", "restarts of the adapter"),
      not_yet("mora", "adapters with square matrices (MoRA)"),
      not_yet("unfrozen_parameters", "training some weights in full"),
      not_yet("lora_fan_in_fan_out", "transposed weights"),
      not_yet("load_in_4bit", "4-bit base weights").advise("false trains beside bf16 weights"),
      not_yet("load_in_8bit", "8-bit base weights").advise("false trains beside bf16 weights"),
      not_yet("quantize_moe_experts", "4-bit and 8-bit experts"),
      not_yet("model_quantization_config", "quantised base weights"),
  };
  add_not_yet(section, "GPTQ base weights", {"gptq", "gptq_disable_exllama", "gptq_groupsize", "gptq_model_v1"});
  add_not_yet(section, "training for quantised weights",
              {"qat.activation_dtype", "qat.weight_dtype", "qat.quantize_embedding", "qat.group_size",
               "qat.fake_quant_after_n_steps", "nvfp4_merge_aware", "nvfp4_merge_aware_start_step"});
  add_not_yet(section, "quantised weights",
              {"quantization.weight_dtype", "quantization.activation_dtype", "quantization.quantize_embedding",
               "quantization.group_size"});
  add_ignored(section, "it belongs to a key that is off",
              {"relora_*", "bnb_config_kwargs", "bnb_4bit_*", "use_bnb_nested_quant", "nf4_backend",
               "model_quantization_config_kwargs", "jagged_restart_*", "mixlora_*"});
  add_ignored(section, "merging is `spillway merge`; loading needs no hint",
              {"merge_lora", "merge_method", "lora_on_cpu", "qlora_sharded_model_loading", "lora_task_type",
               "ple_cpu_offload"});
  add_ignored(section, "adapters and their gradients are f32", {"lora_fp32_gradients", "embeddings_skip_upcast"});
  return section;
}

}  // namespace

std::vector<KeySection> model_sections() { return {model_section(), adapter_section()}; }

}  // namespace spillway::config
