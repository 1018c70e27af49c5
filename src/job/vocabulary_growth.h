// New tokens of a config, and the rows of the embedding that they need.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "model/model.h"
#include "model/parameters.h"

namespace spillway::train {

// Throws InputError where the vocabulary lacks TRL's eos_token or pad_token, which add no token. Reads the tokenizer
// only where one of them is given.
void check_named_tokens(const config::TokenizerSettings& settings);

// Sets the model's vocab_size to what the tokens of the config need, where that is more than the files have; with
// resize_token_embeddings_to_32x a multiple of 32. An adapter that does not train embedding and head in full
// (modules_to_save) has no use for new rows: beside it a new padding token is left out of the settings with a warning,
// since no batch here is padded, and any other is an InputError that names its key. `parameters` are those of the model
// before. Returns what the user should be told, a line each.
[[nodiscard]] std::vector<std::string> grow_vocabulary(config::TokenizerSettings& settings, ModelPtr& model,
                                                       const ParameterTable& parameters);

}  // namespace spillway::train
