// Overrides of keys of a model's config.json, applied before it is read.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

// Returns the text of a config.json with `overrides` applied, a JSON object as text or empty: mappings are merged, key
// by key, and any other value is replaced. `type` and `rope_type` count as one key, named differently in transformers 4
// and 5. `where` names the file in errors. Throws InputError for text that is not a JSON object.
[[nodiscard]] std::string with_overrides(std::string config_json, std::string_view overrides, std::string_view where);

// Returns the advice for a value of config.json that is not supported: "write overrides_of_model_config: {KEY: VALUE}
// into the config of the run". `where` is the place of the key in config.json, which may be its text_config.
[[nodiscard]] std::string override_advice(std::string_view where, std::string_view key, std::string_view value);

}  // namespace spillway
