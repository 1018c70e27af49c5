// Selects the family of a folder's model.
#include <algorithm>

#include "model/decoder/decoder.h"
#include "model/decoder/gguf.h"
#include "model/dit/wan.h"
#include "model/gguf/config.h"
#include "model/gguf/weights.h"
#include "model/layout.h"
#include "model/model.h"

namespace spillway {

ModelPtr read_model(const std::filesystem::path& folder, const std::string& overrides) {
  return is_diffusers_folder(folder) ? read_wan(folder, overrides) : read_decoder(folder, overrides);
}

GgufDescription gguf_description(std::string_view config_json, std::string_view where,
                                 const std::filesystem::path& folder) {
  DecoderConfig config = parse_decoder_config(config_json, where);
  const bool may_be_stacked = std::any_of(config.layers.begin(), config.layers.end(), [](const DecoderLayer& layer) {
    return layer.mixture && layer.mixture->stacked;
  });
  if (!config.wrapper.empty() || (may_be_stacked && has_weights(folder))) {
    const DecoderConfig stored = read_decoder_config(folder);
    config.names = stored.names;
    if (config.files_say_tie) config.tie_word_embeddings = stored.tie_word_embeddings;
    for (size_t i = 0; i < config.layers.size(); ++i) config.layers[i].mixture = stored.layers[i].mixture;
  }
  check_expressible(config, where);
  return describe_gguf(config);
}

GgufDescription imported_gguf_description(std::string_view config_json, std::string_view where) {
  return describe_gguf(parse_decoder_config(config_json, where));
}

void check_gguf_model(const GgufFile& file) { check_is_decoder(file); }

nlohmann::ordered_json gguf_config(const GgufFile& file, const GgufTokenizerFiles& tokenizer, DType dtype) {
  return decoder_config_of(file, tokenizer, dtype);
}

}  // namespace spillway
