#include "config/keys.h"

namespace spillway::config {
namespace {

KeySection model_section() {
  KeySection section{"Model", {}};
  section.keys = {
      key<&Spelled::base_model>("base_model", "the model: a Hugging Face folder on this machine")
          .alias({"model_name_or_path"})
          .required(),
      key<&Spelled::tokenizer_config>("tokenizer_config", "a folder with another tokenizer than the model's"),
      key<&Spelled::special_tokens, &SpecialTokens::bos_token>("special_tokens.bos_token",
                                                               "replaces the tokenizer's; a new one is added"),
      key<&Spelled::special_tokens, &SpecialTokens::eos_token>("special_tokens.eos_token",
                                                               "replaces the tokenizer's; a new one is added"),
      key<&Spelled::special_tokens, &SpecialTokens::pad_token>("special_tokens.pad_token",
                                                               "replaces the tokenizer's; a new one is added"),
      key<&Spelled::special_tokens, &SpecialTokens::unk_token>("special_tokens.unk_token",
                                                               "replaces the tokenizer's; a new one is added"),
      key<&Spelled::special_tokens, &SpecialTokens::additional_special_tokens>(
          "special_tokens.additional_special_tokens", "more special tokens; new ones are added to the vocabulary"),
      key<&Spelled::eos_token>("eos_token", "TRL's: replaces the tokenizer's by another token of the vocabulary"),
      key<&Spelled::pad_token>("pad_token", "TRL's: replaces the tokenizer's by another token of the vocabulary"),
      key<&Spelled::special_tokens, &SpecialTokens::tokens>("tokens", "plain tokens added to the vocabulary")
          .alias({"add_tokens"}),
      key<&Spelled::special_tokens, &SpecialTokens::overrides>("added_tokens_overrides",
                                                               "other texts for added tokens, by id"),
      key<&Spelled::resize_token_embeddings_to_32x>("resize_token_embeddings_to_32x",
                                                    "the embedding's rows are a multiple of 32"),
  };
  return section;
}

KeySection adapter_section() {
  KeySection section{"Adapter", {}};
  section.keys = {
      key<&Spelled::adapter>("adapter", "what is trained: all weights, or a LoRA adapter"),
      key<&Spelled::use_peft>("use_peft",
                              "TRL's: adapter: lora, with TRL's defaults of lora_r, lora_alpha, lora_dropout"),
      key<&Spelled::lora_r>("lora_r", "rank of the adapter").least(1).most(65536),
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
      key<&Spelled::lora_model_dir>("lora_model_dir", "an adapter's folder to start from"),
      key<&Spelled::peft_use_rslora>("peft_use_rslora", "scale by alpha / sqrt(r)").alias({"use_rslora"}),
  };
  return section;
}

}  // namespace

std::vector<KeySection> model_sections() { return {model_section(), adapter_section()}; }

}  // namespace spillway::config
