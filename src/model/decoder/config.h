// Reads what a Hugging Face config.json says about a decoder, in the styles of transformers 4 and 5: every default is
// filled in and every number checked, so that the rest of the program can rely on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json_field.h"
#include "model/decoder/layer.h"
#include "model/decoder/rope_config.h"
#include "model/generation_defaults.h"
#include "model/quantised/quantisation_config.h"
#include "model/score_head.h"
#include "model/storage.h"
#include "model/weight_names.h"
#include "tensor/dtype.h"

namespace spillway {

struct Architecture;

// Fields carry their Hugging Face names where they have one.
struct DecoderConfig {
  const Architecture* architecture = nullptr;
  int64_t vocab_size = 0;
  std::optional<int64_t> stored_vocab_size;  // rows that the files have, where tokens were added; empty: vocab_size
  int64_t hidden_size = 0;
  std::vector<DecoderLayer> layers;
  bool names_head_dim = false;  // config.json does
  int64_t max_position_embeddings = 0;
  double norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  std::optional<ScoreHead> score;  // in place of the head
  bool has_new_score = false;      // which the files do not have
  double initializer_range = 0.02;
  bool copies_head = false;       // the files tie the head; here it is a weight of its own that starts as the embedding
  std::vector<RopeConfig> ropes;  // that layers name by their place: the one of all, or a second one of windows
  bool has_unread_layers = false;  // files may hold layers behind the model's own, which no forward pass reads
  double embedding_scale = 1;      // of the embedding's rows
  double residual_scale = 1;       // of what a branch adds to the stream
  double logit_scale = 1;
  double logit_soft_cap = 0;  // of scaled logits; 0: none
  // As TextModel's, which a model that scores is without, as in transformers.
  std::optional<double> router_aux_loss_coef;
  double named_router_coef = 0;  // whether or not it asks for the loss

  std::string wrapper;  // that it is the model of text in, "Gemma3ForConditionalGeneration"; empty: it stands alone
  WeightNames names;    // in its files
  bool files_say_tie = false;                      // that is: whether they have a head; config.json does not
  LinearStorage linear_storage;                    // of the linear layers' weights in the files
  std::optional<QuantisationConfig> quantisation;  // what config.json says of it
  std::optional<DType> dtype;                      // `dtype` or `torch_dtype`; what the files really hold counts more
  std::optional<int64_t> bos_token_id, pad_token_id;
  // The row of the embedding that gets no gradient by look-ups: pad_token_id of config.json, as transformers gives it
  // to nn.Embedding. It stays where a run has another padding token, or more tokens.
  std::optional<int64_t> padding_idx;
  GenerationDefaults generation;
  std::string overrides;                  // with which config.json was read
  std::optional<InputError> untrainable;  // what training computes and is not computed here: a dropout
};

// Reads the text of a config.json; `where` names it in errors. Throws InputError for what is malformed, out of bounds
// or not supported (architectures, activations, rope types, quantised weights are refused by name).
[[nodiscard]] DecoderConfig parse_decoder_config(std::string_view json, std::string_view where);

// Notes in `config` that dropout `key` is not 0, which training would need. `missing`: what it is where the file leaves
// it out.
void note_dropout(const JsonField& json, std::string_view key, DecoderConfig& config, double missing = 0);

// Reads FOLDER/config.json and, for the tokens that end generation and for the repetition penalty,
// FOLDER/generation_config.json if it is there. `overrides`: model/config_overrides.h.
[[nodiscard]] DecoderConfig read_decoder_config(const std::filesystem::path& folder, const std::string& overrides = {});

// The text of FOLDER/config.json, with what overrides it, the vocabulary's size, the tie of the head and a new score as
// `config` has them.
[[nodiscard]] std::string decoder_config_json(const std::filesystem::path& folder, const DecoderConfig& config);

}  // namespace spillway
