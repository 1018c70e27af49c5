// Models of text inside a larger one that reads images or sound, too: a *ForConditionalGeneration of transformers,
// whose config.json has a text_config.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "io/safetensors.h"
#include "model/weight_names.h"

namespace spillway {

// The part of a config.json that describes its model of text.
struct TextConfig {
  nlohmann::json json;  // as if that stood alone
  std::string where;    // that names it in errors
  std::string wrapper;  // "Gemma3ForConditionalGeneration"; empty: the model stands alone
  // Of a wrapper: whether its head is the embedding is for the files to say, in which it then is not.
  bool files_say_tie = false;
};

// Returns the text_config of a wrapper: what that leaves out is as transformers' class has it, and ids of tokens,
// dtype, ties and codes count that stand beside it. Throws InputError for a text_config of no known model, by its name,
// and for a wrapper in which that computes something else.
[[nodiscard]] TextConfig read_text_config(std::string_view config_json, std::string_view where);

// The object in which a wrapper's config.json keeps `key` of its text model, made where it is not there.
[[nodiscard]] nlohmann::ordered_json& text_config_of(nlohmann::ordered_json& config_json);

// As transformers 5 names weights, and by what the files of a wrapper hold, in one of the ways in which it saves them.
// Throws InputError for files without a text model.
[[nodiscard]] WeightNames default_wrapper_names();
[[nodiscard]] WeightNames wrapper_names(const SafetensorsFolder& files);

}  // namespace spillway
