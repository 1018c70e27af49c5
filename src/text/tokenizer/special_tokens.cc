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

std::vector<int32_t> read_stop_ids(const std::string& generation_config, const std::string& config,
                                   const std::filesystem::path& folder) {
  constexpr const char* kKey = "eos_token_id";
  const bool has_own = !generation_config.empty();
  if (!has_own && config.empty()) return {};
  const std::string where = folder / (has_own ? "generation_config.json" : "config.json");
  const JsonDocument document(with_named_infinities(has_own ? generation_config : config), where);
  JsonField ids = document.root()[kKey];
  const JsonField text = document.root()["text_config"];
  if (!has_own && ids.is_null() && !text.is_null()) ids = text[kKey];
  if (ids.is_null()) return {};
  std::vector<int32_t> result;
  for (const int64_t id : ids.integers(0, INT32_MAX - 1)) result.push_back(static_cast<int32_t>(id));
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
