#include "config/keys.h"

namespace spillway::config {
namespace {

KeySection model_section() {
  KeySection section{"Model", {}};
  section.keys = {
      key<&Spelled::base_model>("base_model", "the model: a Hugging Face folder or a GGUF file on this machine")
          .alias({"model_name_or_path", "pretrained_model_name_or_path", "model_path"})
          .required()
          .path(),
      key<&Spelled::revision_of_model>("revision_of_model",
                                       "a branch, a tag or a commit of the model, where that is a name of the hub")
          .alias({"model_revision", "model_init_kwargs.revision", "model_kwargs.revision"}),
      key<&Spelled::overrides_of_model_config>("overrides_of_model_config",
                                               "keys that replace those of the model's config.json, nested ones too: "
                                               "{attention_dropout: 0, rope_parameters: {rope_theta: 1e6}}")
          .alias({"model_config"}),
      key<&Spelled::tokenizer_config>("tokenizer_config", "a folder with another tokenizer than the model's").path(),
      key<&Spelled::special_tokens, &SpecialTokens::bos_token>("special_tokens.bos_token",
                                                               "replaces the tokenizer's; a new one is added")
          .alias({"tokens.bos_token"}),
      key<&Spelled::special_tokens, &SpecialTokens::eos_token>("special_tokens.eos_token",
                                                               "replaces the tokenizer's; a new one is added")
          .alias({"tokens.eos_token"}),
      key<&Spelled::special_tokens, &SpecialTokens::pad_token>("special_tokens.pad_token",
                                                               "replaces the tokenizer's; a new one is added")
          .alias({"tokens.pad_token"}),
      key<&Spelled::special_tokens, &SpecialTokens::unk_token>("special_tokens.unk_token",
                                                               "replaces the tokenizer's; a new one is added")
          .alias({"tokens.unk_token"}),
      key<&Spelled::special_tokens, &SpecialTokens::additional_special_tokens>(
          "special_tokens.additional_special_tokens", "more special tokens; new ones are added to the vocabulary")
          .alias({"tokens.additional_special_tokens"}),
      key<&Spelled::eos_token>("eos_token", "TRL's: replaces the tokenizer's by another token of the vocabulary"),
      key<&Spelled::pad_token>("pad_token", "TRL's: replaces the tokenizer's by another token of the vocabulary"),
      key<&Spelled::special_tokens, &SpecialTokens::tokens>(
          "tokens", "plain tokens added to the vocabulary; a mapping is special_tokens")
          .alias({"add_tokens"}),
      key<&Spelled::special_tokens, &SpecialTokens::overrides>("added_tokens_overrides",
                                                               "other texts for added tokens, by id"),
      key<&Spelled::resize_token_embeddings_to_32x>("resize_token_embeddings_to_32x",
                                                    "the embedding's rows are a multiple of 32"),
      key<&Spelled::reinit_weights>("reinit_weights",
                                    "of full fine-tuning: begin with fresh weights, normal numbers of config.json's "
                                    "initializer_range, in place of the model's"),
  };
  return section;
}

KeySection adapter_section() {
  KeySection section{"Adapter", {}};
  section.keys = {
      key<&Spelled::adapter>("adapter", "what is trained: all weights, or a LoRA adapter"),
      key<&Spelled::use_peft>(
          "use_peft",
          "TRL's: adapter: lora, with TRL's defaults of lora_r, lora_alpha, lora_dropout and of nested scales"),
      key<&Spelled::lora_r>("lora_r", "rank of the adapter").alias({"lora_rank"}).least(1).most(65536),
      key<&Spelled::lora_alpha>("lora_alpha", "the adapter's product is scaled by alpha / r; left out: r").above(0),
      key<&Spelled::lora_dropout>("lora_dropout", "share of the adapter's inputs that is dropped").least(0).most(0.999),
      key<&Spelled::lora_target_modules>("lora_target_modules",
                                         "names of the modules that get an adapter, or one pattern that their whole "
                                         "paths match; left out: q_proj and v_proj"),
      key<&Spelled::lora_target_linear>("lora_target_linear", "every linear module but the head gets an adapter"),
      key<&Spelled::lora_modules_to_save>(
          "lora_modules_to_save",
          "ends of the paths of modules that are trained in full beside the adapter and "
          "saved with it: embed_tokens, lm_head, norm, ..."),
      key<&Spelled::lora_fan_in_fan_out>("lora_fan_in_fan_out",
                                         "accepted: no weight of these models is transposed, and PEFT takes it back "
                                         "for such layers"),
      key<&Spelled::lora_model_dir>("lora_model_dir", "an adapter's folder to start from").path(),
      key<&Spelled::peft_use_rslora>("peft_use_rslora", "scale by alpha / sqrt(r)").alias({"use_rslora"}),
      key<&Spelled::peft_use_dora>("peft_use_dora", "DoRA: the norms of the rows of adapted weights are trained, too")
          .alias({"use_dora"}),
      key<&Spelled::lora_rank_pattern>(
          "lora_rank_pattern",
          "another lora_r for the modules whose paths end in a pattern: {q_proj: 32, 'layers.[0-3].mlp.up_proj': 4}")
          .least(1)
          .most(65536),
      key<&Spelled::lora_alpha_pattern>("lora_alpha_pattern", "another lora_alpha, likewise").above(0).most(1e9),
      key<&Spelled::peft_layers_to_transform>("peft_layers_to_transform",
                                              "numbers of the layers that get an adapter; left out: all")
          .least(0)
          .most(1e6),
      key<&Spelled::peft_layers_pattern>("peft_layers_pattern",
                                         "what the list of layers is called in paths; left out: anything"),
      key<&Spelled::peft_init_lora_weights>("peft_init_lora_weights",
                                            "what the adapter starts as: A as PEFT's uniform numbers or normal ones, "
                                            "beside a B of zeros; or as the weight's "
                                            "largest singular vectors, its QR factors, or what quantising loses of it")
          .alias({"init_lora_weights"}),
      key<&Spelled::loftq_bits>(
          "peft.loftq_config.loftq_bits",
          "the adapter starts as loftq; where the base is not quantised otherwise, adapted layers are "
          "in so many bits, 4 or 8")
          .least(4)
          .most(8),
      key<&Spelled::loraplus_lr_ratio>("loraplus_lr_ratio",
                                       "LoRA+: the learning rate of B and of vectors is so many times that of A, and "
                                       "nothing decays")
          .above(0)
          .most(1e6),
      key<&Spelled::loraplus_lr_embedding>(
          "loraplus_lr_embedding",
          "accepted: the learning rate of an embedding's adapter, which no config asks "
          "for")
          .least(0),
      key<&Spelled::unfrozen_parameters>(
          "unfrozen_parameters",
          "of full fine-tuning, the weights that are trained: patterns for the starts of their names, with the rows in "
          "brackets behind one ([128:]) where the gradient of all others is zero; left out: all"),
  };
  return section;
}

KeySection quantisation_section() {
  using Bnb = BnbConfig;
  constexpr auto kBnb = &Spelled::bnb_config_kwargs;
  KeySection section{"Quantised base", {}};
  section.keys = {
      key<&Spelled::load_in_4bit>("load_in_4bit",
                                  "beside an adapter: linear layers but the head in 4 bits, quantised "
                                  "as they are loaded"),
      key<&Spelled::load_in_8bit>("load_in_8bit", "beside an adapter: the same in 8 bits, with a scale for each row"),
      key<kBnb, &Bnb::quant_type>("bnb_config_kwargs.bnb_4bit_quant_type",
                                  "the 16 values that codes of 4 bits stand for")
          .alias({"bnb_4bit_quant_type"}),
      key<kBnb, &Bnb::use_double_quant>(
          "bnb_config_kwargs.bnb_4bit_use_double_quant",
          "scales of 4-bit blocks are 8-bit codes themselves; beside use_peft, false where "
          "it is left out, as TRL has it")
          .alias({"use_bnb_nested_quant"}),
      key<kBnb, &Bnb::skip_modules>("bnb_config_kwargs.llm_int8_skip_modules",
                                    "modules that are not quantised: regular expressions for the start of a path, or "
                                    "its end"),
      key<kBnb, &Bnb::compute_dtype>("bnb_config_kwargs.bnb_4bit_compute_dtype",
                                     "accepted: products are in the dtype of the run"),
      key<kBnb, &Bnb::quant_storage>("bnb_config_kwargs.bnb_4bit_quant_storage", "accepted: codes are bytes")
          .alias({"bnb_4bit_quant_storage"}),
      key<kBnb, &Bnb::threshold>("bnb_config_kwargs.llm_int8_threshold",
                                 "accepted: activations are not rounded to 8 bits")
          .least(0),
  };
  return section;
}

}  // namespace

std::vector<KeySection> model_sections() { return {model_section(), adapter_section(), quantisation_section()}; }

}  // namespace spillway::config
