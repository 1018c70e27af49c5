#include "text/tokenizer/special_tokens.h"

#include <climits>

#include "base/json.h"

namespace spillway::text {
namespace {

// Reads a token, a string or an object with its content; null takes away an earlier file's.
void read_special_token(const JsonField& config, const char* key, std::optional<std::string>& token) {
  if (!config.has(key)) return;
  token.reset();
  const JsonField field = config[key];
  if (!field.is_null()) token = field.is_object() ? field["content"].string() : field.string();
}

}  // namespace

void SpecialTokens::add(const JsonField& config) {
  read_special_token(config, "bos_token", bos);
  read_special_token(config, "eos_token", eos);
  read_special_token(config, "pad_token", pad);
  read_special_token(config, "unk_token", unk);

  const JsonField chat = config["chat_template"];
  if (chat.is_null() || !chat_templates.empty()) return;
  if (chat.is_string()) {
    chat_templates.emplace_back("default", chat.string());
  } else if (chat.is_object()) {
    for (const auto& [name, source] : chat.members()) chat_templates.emplace_back(name, source.string());
  } else {
    for (const JsonField& named : chat.elements())
      chat_templates.emplace_back(named["name"].string(), named["template"].string());
  }
}

std::vector<int32_t> read_stop_ids(const JsonField& generation_config) {
  const JsonField ids = generation_config["eos_token_id"];
  constexpr int64_t kMax = INT32_MAX - 1;
  std::vector<int32_t> result;
  if (ids.is_null()) return result;
  if (!ids.is_array()) return {static_cast<int32_t>(ids.integer(0, kMax))};
  for (const JsonField& id : ids.elements()) result.push_back(static_cast<int32_t>(id.integer(0, kMax)));
  return result;
}

nlohmann::json parse_config(std::string_view text, std::string_view where) {
  nlohmann::json result = parse_json(text, where);
  if (result.is_discarded()) throw input_error(where, "expected JSON, got something else; fetch the file again");
  if (!result.is_object()) {
    throw input_error(where, "expected a JSON object, got {}; fetch the file again", result.type_name());
  }
  return result;
}

}  // namespace spillway::text
