#include "model/decoder/layer_types.h"

#include "base/error.h"

namespace spillway {

std::vector<std::string> read_layer_types(const JsonField& json, std::string_view key,
                                          std::vector<std::string> missing) {
  std::vector<std::string> types = json[key].strings_or_none();
  if (types.empty()) return missing;
  if (types.size() == missing.size()) return types;
  throw input_error(json.where(), "expected {} to list num_hidden_layers = {} layers, got {}; correct the list", key,
                    missing.size(), types.size());
}

}  // namespace spillway
