#include "text/chat_template.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/local_time.h"
#include "base/text.h"
#include "io/file.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json.h"
#include "text/jinja/parser.h"
#include "text/jinja/unicode.h"
#include "text/template_refusal.h"

namespace spillway::text {
namespace {

using Json = nlohmann::ordered_json;

// The limits of a rendering's cost: a fixed share that no real template comes near, and more for long conversations.
constexpr int64_t kBaseSteps = 10'000'000;
constexpr int64_t kStepsPerByte = 8;
constexpr int64_t kMaxTemplateBytes = int64_t{4} << 20;

constexpr std::array<const char*, 3> kReasoningNames = {"reasoning_content", "thinking", "reasoning"};
// Marks the end of a message that is to be continued; no message holds this by chance.
constexpr std::string_view kContinueMark = "CONTINUE_FINAL_MESSAGE_TAG ";

int64_t text_bytes(const Json& json) {
  if (json.is_string()) return static_cast<int64_t>(json.get_ref<const std::string&>().size());
  int64_t bytes = 1;
  if (json.is_structured()) {
    for (const auto& item : json) bytes += text_bytes(item);
  }
  return bytes;
}

// Checks json's depth, before anything recurses over it.
void check_depth(const Json& json, int level = 0) {
  if (level > jinja::kMaxDepth) {
    throw input_error("messages", "expected values nested at most {} levels deep, got more; correct the messages",
                      jinja::kMaxDepth);
  }
  if (!json.is_structured()) return;
  for (const auto& item : json) check_depth(item, level + 1);
}

Json normalize_messages(const Json& messages) {
  if (!messages.is_array())
    throw input_error("messages", "expected a list of messages, got {}; correct the messages", messages.type_name());
  if (messages.empty())
    throw input_error("messages", "expected at least one message, got an empty list; correct the messages");
  Json result = Json::array();
  for (const Json& message : messages) {
    if (!message.is_object()) {
      throw input_error(fmt::format("messages[{}]", result.size()),
                        "expected an object with role and content, got {}; correct the messages", message.type_name());
    }
    Json kept = Json::object();
    for (const auto& [key, value] : message.items()) {
      if (!value.is_null()) kept[key] = value;
    }
    const auto* found = std::find_if(kReasoningNames.begin(), kReasoningNames.end(),
                                     [&](const char* name) { return kept.contains(name); });
    if (found != kReasoningNames.end()) {
      const Json reasoning = kept[*found];
      Json aliased = Json::object();
      if (!kept.contains("thinking")) aliased["thinking"] = reasoning;
      for (const auto& [key, value] : kept.items()) aliased[key] = value;
      aliased["reasoning_content"] = reasoning;
      kept = std::move(aliased);
    }
    result.push_back(std::move(kept));
  }
  return result;
}

// Appends the mark to the text that is to be continued; returns the text itself.
std::string mark_final_message(Json& message) {
  if (!message.contains("content")) {
    throw input_error("messages",
                      "expected a final message with content to continue, got one without; correct the messages");
  }
  Json* content = &message["content"];
  if (content->is_array()) {
    const auto block = std::find_if(content->rbegin(), content->rend(),
                                    [](const Json& part) { return part.is_object() && part.contains("text"); });
    if (block == content->rend())
      throw input_error("messages", "expected text to continue in the final message, got none; correct the messages");
    content = &(*block)["text"];
  }
  if (!content->is_string())
    throw input_error("messages", "expected text to continue in the final message, got {}; correct the messages",
                      content->type_name());
  std::string text = content->get<std::string>();
  *content = text + std::string(kContinueMark);
  return text;
}

void cut_after_mark(ChatTemplate::Rendered& rendered, const std::string& final_text) {
  const std::string_view mark = kContinueMark, bare = jinja::strip(mark, true, true, nullptr);
  const size_t at = rendered.text.rfind(bare);
  const std::string_view wanted = jinja::strip(final_text, true, true, nullptr);
  if (at == std::string::npos || rendered.text.find(wanted) == std::string::npos) {
    throw input_error("messages",
                      "expected the template to show the final message as it is, got a text without it; the template "
                      "changes it and it cannot be continued");
  }
  // If the template trimmed the message, the space before the mark was trimmed with it.
  const bool whole = rendered.text.compare(at, mark.size(), mark) == 0;
  rendered.text.resize(at);
  rendered.generation_spans.clear();
  if (!whole) rendered.text = std::string(jinja::strip(rendered.text, false, true, nullptr));
}

}  // namespace

ChatTemplate ChatTemplate::compile(std::string source, std::string_view where) {
  try {
    ChatTemplate result;
    result.template_ = std::make_shared<const jinja::Template>(jinja::parse(source));
    result.source_ = std::move(source);
    result.where_ = where;
    return result;
  } catch (const jinja::SyntaxFailure& failure) {
    throw input_error(fmt::format("{}, line {}", where, failure.line), "{}; correct the template",
                      shown_line(failure.message));
  }
}

bool ChatTemplate::marks_generation() const { return template_->marks_generation; }

ChatTemplate::Rendered ChatTemplate::render(const Json& variables, const std::optional<std::tm>& now) const {
  SPILLWAY_CHECK(variables.is_object(), "template variables of type {}", variables.type_name());
  check_depth(variables);
  jinja::Runtime runtime{
      jinja::Budget(kBaseSteps + kStepsPerByte * text_bytes(variables)), now ? *now : local_now(), {}};
  try {
    const jinja::Value names = jinja::from_json(variables, runtime.budget);
    jinja::Interpreter interpreter(runtime, names.dict());
    auto output = interpreter.render(*template_);
    return {std::move(output.text), std::move(output.generation_spans)};
  } catch (const jinja::Failure& failure) {
    const std::string reason = shown_line(failure.message);
    throw TemplateRefusal(where_, reason, reason + "; correct the messages or the template");
  } catch (const jinja::RenderFailure& failure) {
    const std::string place = fmt::format("{}, line {}", where_, failure.line), reason = shown_line(failure.message);
    if (!failure.raised_by_template)
      throw TemplateRefusal(place, reason, reason + "; correct the messages or the template");
    throw TemplateRefusal(
        place, fmt::format("'{}'", reason),
        fmt::format("expected a conversation that the template takes, got '{}'; change the messages", reason));
  }
}

ChatTemplate::Rendered render_chat(const ChatTemplate& chat_template, const ChatInput& input,
                                   const std::optional<std::tm>& now) {
  if (input.continue_final_message && input.add_generation_prompt) {
    throw input_error("continue_final_message", "expected it without add_generation_prompt, got both; choose one");
  }
  Json variables = Json::object();
  variables["messages"] = normalize_messages(input.messages);
  const auto list_or_null = [](const Json& json, const char* name) {
    if (!json.is_null() && !json.is_array())
      throw input_error(name, "expected a list, got {}; correct the value", json.type_name());
    return json;
  };
  variables["tools"] = list_or_null(input.tools, "tools");
  variables["documents"] = list_or_null(input.documents, "documents");
  variables["add_generation_prompt"] = input.add_generation_prompt;
  if (!input.variables.is_object())
    throw input_error("chat_template_kwargs", "expected an object, got {}; correct the value",
                      input.variables.type_name());
  for (const auto& [name, value] : input.variables.items()) variables[name] = value;
  if (!input.continue_final_message) return chat_template.render(variables, now);
  const std::string final_text = mark_final_message(variables["messages"].back());
  ChatTemplate::Rendered rendered = chat_template.render(variables, now);
  cut_after_mark(rendered, final_text);
  return rendered;
}

ChatTemplates ChatTemplates::compile(std::string usual, std::optional<std::string> tool_use, std::string_view where) {
  ChatTemplates result{ChatTemplate::compile(std::move(usual), where), {}};
  if (tool_use) result.tool_use = ChatTemplate::compile(std::move(*tool_use), fmt::format("{}, tool_use", where));
  return result;
}

const ChatTemplate& ChatTemplates::for_tools(const Json& tools) const {
  return tool_use && !tools.is_null() ? *tool_use : usual;
}

std::string resolve_chat_template(std::string_view choice, const std::optional<std::string>& jinja,
                                  const std::optional<std::string>& tokenizer) {
  constexpr std::string_view kDefault = "tokenizer_default", kFallback = "tokenizer_default_fallback_";
  if (choice.empty()) choice = kDefault;
  if (choice == "jinja") {
    if (!jinja || jinja->empty())
      throw input_error("chat_template",
                        "expected chat_template_jinja beside 'jinja', got none; give the template's text or file");
    return *jinja;
  }
  if (choice == kDefault) {
    if (!tokenizer || tokenizer->empty())
      throw input_error(
          "chat_template",
          "expected a tokenizer with a chat template, got one without; set chat_template: chatml or another name");
    return *tokenizer;
  }
  if (choice.starts_with(kFallback)) {
    if (tokenizer && !tokenizer->empty()) return *tokenizer;
    choice.remove_prefix(kFallback.size());
  }
  if (const auto found = builtin_chat_template(choice)) return std::string(*found);
  std::string names;
  for (const std::string_view name : builtin_chat_template_names()) names += fmt::format(", {}", name);
  throw input_error("chat_template",
                    "expected tokenizer_default, tokenizer_default_fallback_NAME, jinja{}, got '{}'; correct the value",
                    names, choice);
}

ChosenTemplate choose_chat_template(std::string choice, std::string jinja,
                                    const std::optional<std::string>& tokenizer) {
  if (choice.empty() && !jinja.empty()) choice = "jinja";
  std::string where = choice.empty() ? "chat template" : fmt::format("chat template {}", choice);
  if (!jinja.empty() && jinja.find("{{") == std::string::npos && jinja.find("{%") == std::string::npos) {
    where = jinja;
    jinja = read_file(jinja, kMaxTemplateBytes);
  }
  return {resolve_chat_template(choice, jinja.empty() ? std::nullopt : std::optional(jinja), tokenizer), where};
}

}  // namespace spillway::text
