#include "text/conversation.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"

namespace spillway::text {
namespace {

using Json = nlohmann::ordered_json;

bool flag(const Json& json, const char* key, bool fallback, std::string_view where) {
  const auto found = json.find(key);
  if (found == json.end()) return fallback;
  if (!found->is_boolean())
    throw input_error(where, "expected true or false for {}, got {}; correct it", key, found->type_name());
  return found->get<bool>();
}

void check_messages(const Json& messages, std::string_view where) {
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].is_object()) continue;
    throw input_error(where, "expected messages.{} to be an object such as {}, got {}; correct it", i,
                      R"({"role": "user", "content": "Hello"})", messages[i].type_name());
  }
}

}  // namespace

ChatInput chat_input(const Json& json, const Tokenizer& tokenizer, bool asks, std::string_view where) {
  ChatInput input{.add_generation_prompt = asks};
  for (const auto& [name, token] : {std::pair("bos_token", tokenizer.bos_token()),
                                    {"eos_token", tokenizer.eos_token()},
                                    {"pad_token", tokenizer.pad_token()},
                                    {"unk_token", tokenizer.unk_token()}}) {
    if (!token.empty()) input.variables[name] = token;
  }
  if (json.is_array()) {
    check_messages(json, where);
    input.messages = json;
    return input;
  }
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array()) {
    throw input_error(where,
                      "expected a list of messages, or an object with such a list under 'messages', got {}; correct it",
                      json.is_discarded() ? "text that is not JSON" : json.type_name());
  }
  check_messages(json["messages"], where);
  input.messages = json["messages"];
  if (json.contains("tools")) input.tools = json["tools"];
  if (json.contains("documents")) input.documents = json["documents"];
  input.add_generation_prompt = flag(json, "add_generation_prompt", asks, where);
  input.continue_final_message = flag(json, "continue_final_message", false, where);
  if (json.contains("chat_template_kwargs")) {
    if (!json["chat_template_kwargs"].is_object())
      throw input_error(where, "expected an object for chat_template_kwargs, got {}; correct it",
                        json["chat_template_kwargs"].type_name());
    input.variables.update(json["chat_template_kwargs"]);
  }
  return input;
}

ChatTemplates chat_templates_of(const Tokenizer& tokenizer, const std::string& model) {
  const std::optional<std::string> source = tokenizer.chat_template();
  if (!source) {
    throw input_error(model,
                      "expected a chat template in chat_template.jinja or tokenizer_config.json, got none; add one");
  }
  return ChatTemplates::compile(*source, tokenizer.chat_template("tool_use"), "chat template of " + model);
}

std::string render_prompt(const Json& conversation, const ChatTemplates& chats, const Tokenizer& tokenizer,
                          std::string_view where, LeftOutWarnings& warnings) {
  const ChatInput input = chat_input(conversation, tokenizer, true, where);
  const ChatTemplate& chat = chats.for_tools(input.tools);
  std::string text = render_chat(chat, input).text;
  warnings.check(chat, input, text, where);
  return text;
}

}  // namespace spillway::text
