#include "cli/chat_prompt.h"

#include "base/error.h"
#include "base/json.h"
#include "cli/json_lines.h"
#include "io/file.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxFileBytes = int64_t{1} << 28;

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

text::ChatInput chat_input(std::string_view text, const text::Tokenizer& tokenizer, bool asks, std::string_view where) {
  const auto json = parse_json<Json>(text, where);
  text::ChatInput input{.add_generation_prompt = asks};
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

text::ChatTemplates chat_templates_of(const text::Tokenizer& tokenizer, const std::string& model) {
  const std::optional<std::string> source = tokenizer.chat_template();
  if (!source) {
    throw input_error(model,
                      "expected a chat template in chat_template.jinja or tokenizer_config.json, got none; add one");
  }
  return text::ChatTemplates::compile(*source, tokenizer.chat_template("tool_use"), "chat template of " + model);
}

std::string render_prompt(std::string_view text, const text::ChatTemplates& chats, const text::Tokenizer& tokenizer,
                          std::string_view where) {
  const text::ChatInput input = chat_input(text, tokenizer, true, where);
  return render_chat(chats.for_tools(input.tools), input).text;
}

std::vector<std::string> render_prompts(const std::string& path, bool json_lines, const text::Tokenizer& tokenizer,
                                        const std::string& model) {
  const text::ChatTemplates chats = chat_templates_of(tokenizer, model);
  std::vector<std::string> prompts;
  const auto add = [&](std::string_view text, const std::string& where) {
    prompts.push_back(render_prompt(text, chats, tokenizer, where));
  };
  if (!json_lines) {
    add(read_file(path, kMaxFileBytes), path);
    return prompts;
  }
  each_line(path, [&](std::string_view line, const std::string& where) {
    if (!line.empty()) add(line, where);
  });
  return prompts;
}

}  // namespace spillway
