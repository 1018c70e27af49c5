// Selects the family of a folder's model.
#include "model/decoder/decoder.h"
#include "model/decoder/gguf.h"
#include "model/dit/wan.h"
#include "model/gguf/config.h"
#include "model/gguf/weights.h"
#include "model/model.h"

namespace spillway {

ModelPtr read_model(const std::filesystem::path& folder, const std::string& overrides) {
  return is_diffusers_folder(folder) ? read_wan(folder, overrides) : read_decoder(folder, overrides);
}

void check_config(std::string_view config_json, std::string_view where) {
  (void)parse_decoder_config(config_json, where);
}

GgufDescription gguf_description(std::string_view config_json, std::string_view where) {
  return describe_gguf(parse_decoder_config(config_json, where), where);
}

}  // namespace spillway
