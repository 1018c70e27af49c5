#include "cli/chat_prompt.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxFileBytes = int64_t{1} << 28;

Json parse(std::string_view text, std::string_view where) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    throw input_error(where, "expected JSON: a list of messages, or an object that holds one; correct it");
  return json;
}

bool flag(const Json& json, const char* key, bool fallback, std::string_view where) {
  const auto found = json.find(key);
  if (found == json.end()) return fallback;
  if (!found->is_boolean())
    throw input_error(where, "expected {} to be true or false, got {}; correct it", key, found->type_name());
  return found->get<bool>();
}

}  // namespace

data::ChatInput chat_input(const Json& json, const data::Tokenizer& tokenizer, bool asks, std::string_view where) {
  data::ChatInput input{.add_generation_prompt = asks};
  input.variables = {{"bos_token", tokenizer.bos_token()},
                     {"eos_token", tokenizer.eos_token()},
                     {"pad_token", tokenizer.pad_token()},
                     {"unk_token", tokenizer.unk_token()}};
  if (json.is_array()) {
    input.messages = json;
    return input;
  }
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array()) {
    throw input_error(where,
                      "expected a list of messages, or an object with such a list under 'messages', got {}; correct it",
                      json.type_name());
  }
  input.messages = json["messages"];
  if (json.contains("tools")) input.tools = json["tools"];
  if (json.contains("documents")) input.documents = json["documents"];
  input.add_generation_prompt = flag(json, "add_generation_prompt", asks, where);
  input.continue_final_message = flag(json, "continue_final_message", false, where);
  if (json.contains("chat_template_kwargs")) {
    if (!json["chat_template_kwargs"].is_object())
      throw input_error(where, "expected chat_template_kwargs to be an object; correct it");
    input.variables.update(json["chat_template_kwargs"]);
  }
  return input;
}

std::vector<std::string> render_prompts(const std::string& path, bool json_lines, const data::Tokenizer& tokenizer,
                                        const std::string& model) {
  const std::optional<std::string> source = tokenizer.chat_template();
  if (!source)
    throw input_error(
        model, "expected a chat template in tokenizer_config.json or chat_template.jinja, got none; use --prompt");
  const data::ChatTemplate chat = data::ChatTemplate::compile(*source, "chat template of " + model);
  const std::string content = read_file(path, kMaxFileBytes);
  std::vector<std::string> prompts;
  const auto add = [&](std::string_view text, const std::string& where) {
    prompts.push_back(render_chat(chat, chat_input(parse(text, where), tokenizer, true, where)).text);
  };
  if (!json_lines) {
    add(content, path);
    return prompts;
  }
  std::string_view rest = content;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (end > 0) add(rest.substr(0, end), fmt::format("{}:{}", path, number));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return prompts;
}

}  // namespace spillway
