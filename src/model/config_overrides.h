// Keys that replace those of a model's config.json before it is read.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

// The text of a config.json in which what `overrides` has, a JSON object as text or nothing, stands in place of what it
// said: mappings are merged, key by key, and any other value is replaced. `type` and `rope_type` are one key, the name
// of one in transformers 4 and 5. `where` names the file in errors: InputError for text that is no JSON object.
[[nodiscard]] std::string with_overrides(std::string config_json, std::string_view overrides, std::string_view where);

// "write overrides_of_model_config: {KEY: VALUE} into the config of the run", the way out where a key of config.json is
// in the way. `where`: of the place in config.json that has it, which may be its text_config.
[[nodiscard]] std::string override_advice(std::string_view where, std::string_view key, std::string_view value);

}  // namespace spillway
