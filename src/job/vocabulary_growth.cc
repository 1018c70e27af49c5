#include "job/vocabulary_growth.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "text/tokenizer.h"

namespace spillway::train {
namespace {

constexpr int64_t kRounded = 32;

text::Tokenizer tokenizer_of(const config::TokenizerSettings& settings) {
  return text::Tokenizer::load(settings.folder, settings.special_tokens);
}

// Returns the key that names the first token whose id is not below `rows`; empty if none of the config's is.
std::string key_of_new_token(const text::SpecialTokenNames& names, const text::Tokenizer& tokenizer, int64_t rows) {
  const auto is_new = [&](const std::string& token) { return tokenizer.token_to_id(token).value_or(0) >= rows; };
  for (const auto& [key, token] :
       {std::pair("bos_token", &names.bos_token), {"eos_token", &names.eos_token}, {"unk_token", &names.unk_token}}) {
    if (is_new(*token)) return fmt::format("special_tokens.{}", key);
  }
  if (std::any_of(names.tokens.begin(), names.tokens.end(), is_new)) return "tokens";
  const std::vector<std::string>& additional = names.additional_special_tokens;
  if (std::any_of(additional.begin(), additional.end(), is_new)) return "special_tokens.additional_special_tokens";
  return "";
}

// Returns the names of modules by which an adapter trains rows of new tokens.
std::string modules_with_rows(const ParameterTable& parameters) {
  std::string names = "embed_tokens, lm_head";
  for (const Parameter& p : parameters) {
    const std::string_view name = std::string_view(p.module).substr(p.module.rfind('.') + 1);
    if (p.has_row_per_token() && name != "embed_tokens" && name != "lm_head") names += fmt::format(", {}", name);
  }
  return names;
}

// Returns true if all weights with a row per token are trained.
bool trains_rows_of_tokens(const ParameterTable& parameters) {
  return std::all_of(parameters.begin(), parameters.end(),
                     [](const Parameter& p) { return p.trained || !p.has_row_per_token(); });
}

// For tokens that are new and have a spare row of the embedding, which the adapter does not train. As axolotl, throws
// InputError for those of a role; others are a warning.
void check_spare_rows(const config::TokenizerSettings& settings, const ParameterTable& parameters,
                      std::vector<std::string>& notes) {
  const text::SpecialTokenNames& names = settings.special_tokens;
  const text::Tokenizer own = text::Tokenizer::load(settings.folder);
  const auto is_new = [&](const std::string& token) { return !token.empty() && !own.token_to_id(token); };
  const std::string remedy = fmt::format("lora_modules_to_save: [{}]", modules_with_rows(parameters));
  for (const auto& [key, token] :
       {std::pair("bos_token", &names.bos_token), {"eos_token", &names.eos_token}, {"unk_token", &names.unk_token}}) {
    if (!is_new(*token)) continue;
    throw input_error(fmt::format("special_tokens.{}", key),
                      "expected a token that the model knows, got {}, whose row of the embedding the adapter does not "
                      "train; write {}, or name a token of the vocabulary",
                      quote(*token), remedy);
  }
  for (const auto& [key, tokens] : {std::pair("tokens", &names.tokens),
                                    {"special_tokens.additional_special_tokens", &names.additional_special_tokens}}) {
    const auto found = std::find_if(tokens->begin(), tokens->end(), is_new);
    if (found == tokens->end()) continue;
    notes.push_back(
        fmt::format("warning: [{}] {} is new, and the adapter does not train its row of the embedding, which says "
                    "nothing yet; write "
                    "{}",
                    key, quote(*found), remedy));
  }
}

}  // namespace

void check_named_tokens(const config::TokenizerSettings& settings) {
  if (!settings.knows_eos_token && !settings.knows_pad_token) return;
  text::SpecialTokenNames others = settings.special_tokens;
  others.eos_token = others.pad_token = "";
  const text::Tokenizer tokenizer = text::Tokenizer::load(settings.folder, others);
  const auto& [eos, pad] = std::tie(settings.special_tokens.eos_token, settings.special_tokens.pad_token);
  for (const auto& [key, is_known, token] :
       {std::tuple("eos_token", settings.knows_eos_token, &eos), {"pad_token", settings.knows_pad_token, &pad}}) {
    if (!is_known || tokenizer.token_to_id(*token)) continue;
    throw input_error(key, "expected a token of the vocabulary, got {}; name one, or add it with special_tokens.{}",
                      quote(*token), key);
  }
}

std::vector<std::string> grow_vocabulary(config::TokenizerSettings& settings, ModelPtr& model,
                                         const ParameterTable& parameters) {
  std::vector<std::string> notes;
  check_named_tokens(settings);
  if (settings.special_tokens == text::SpecialTokenNames{} && !settings.resize_token_embeddings_to_32x) return notes;
  const bool trains_rows = trains_rows_of_tokens(parameters);
  const int64_t vocab_size = text_of(*model, "base_model").vocab_size;
  text::Tokenizer tokenizer = tokenizer_of(settings);
  std::string& pad = settings.special_tokens.pad_token;
  if (!trains_rows && tokenizer.pad_id().value_or(0) >= vocab_size && !pad.empty()) {
    notes.push_back(fmt::format(
        "warning: [special_tokens.pad_token] {} is new, and an adapter trains no new rows of the embedding; it is left "
        "out, since nothing here is padded",
        quote(pad)));
    pad.clear();
    tokenizer = tokenizer_of(settings);
  }
  const int64_t tokens = tokenizer.vocabulary_size();
  const bool rounds = trains_rows && settings.resize_token_embeddings_to_32x;
  const int64_t rows = rounds ? (tokens + kRounded - 1) / kRounded * kRounded : tokens;
  if (rows <= vocab_size) {
    if (!trains_rows) check_spare_rows(settings, parameters, notes);
    return notes;
  }
  if (!trains_rows) {
    const std::string key = key_of_new_token(settings.special_tokens, tokenizer, vocab_size);
    if (key.empty()) return notes;  // only tokens of the files have no row, as before; rows that use one are refused
    throw input_error(key,
                      "expected tokens that the embedding has rows for, got {} tokens for {} rows; train new rows "
                      "with lora_modules_to_save: [{}], or name tokens of the vocabulary",
                      tokens, vocab_size, modules_with_rows(parameters));
  }
  notes.push_back(fmt::format("the embedding grows from {} to {} rows, for {} tokens", vocab_size, rows, tokens));
  model = model->text()->with_vocab_size(rows);
  return notes;
}

}  // namespace spillway::train
