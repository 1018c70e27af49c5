// New tokens of a config, and the embedding rows that they need.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "model/model.h"
#include "model/parameters.h"

namespace spillway::train {

// Throws InputError if the vocabulary lacks TRL's eos_token or pad_token, which add no token. Reads the tokenizer only
// if one of them is given.
void check_named_tokens(const config::TokenizerSettings& settings);

// Sets the model's vocab_size to what the tokens of the config need if the files have fewer rows; with
// resize_token_embeddings_to_32x to a multiple of 32. An adapter that does not train embedding and head in full
// (modules_to_save) cannot use new rows: a new padding token is then removed from the settings with a warning, since
// batches are not padded here, and any other new token is an InputError that names its key. New tokens that have spare
// rows, which it does not train, are an InputError, too, if they begin or end texts or stand for unknown ones, else a
// warning. `parameters` are those of
// the model before. Returns notes for the user, one per line.
[[nodiscard]] std::vector<std::string> grow_vocabulary(config::TokenizerSettings& settings, ModelPtr& model,
                                                       const ParameterTable& parameters);

}  // namespace spillway::train
