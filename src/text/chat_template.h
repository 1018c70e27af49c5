// Renders chat templates: Jinja, with the settings of transformers (ImmutableSandboxedEnvironment with trim_blocks,
// lstrip_blocks, loop controls and {% generation %}), by an interpreter of our own.
//
//   const ChatTemplate chat = ChatTemplate::compile(source, "chat template of model/");
//   const std::string text = render_chat(chat, {.messages = messages, .add_generation_prompt = true}).text;
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway::text {

namespace jinja {
struct Template;
}

// A compiled template. Immutable: any number of threads may render at once.
class ChatTemplate {
 public:
  // `where` names the template in errors. Throws InputError "[where, line N] expected ..." if the source is no
  // template.
  [[nodiscard]] static ChatTemplate compile(std::string source, std::string_view where);

  struct Rendered {
    std::string text;
    // Bytes [begin, end) of `text` that came out of {% generation %} blocks, in order.
    std::vector<std::pair<int64_t, int64_t>> generation_spans;
  };

  // Renders the template. `variables` is an object whose members the template sees by name: messages, tools, bos_token,
  // ... `now` is the local time that strftime_now shows (the clock's by default). Throws InputError with the template's
  // line: with the message of the template's raise_exception, for values it cannot handle, and for a template that does
  // not end.
  [[nodiscard]] Rendered render(const nlohmann::ordered_json& variables, const std::optional<std::tm>& now = {}) const;

  [[nodiscard]] const std::string& source() const { return source_; }
  // Returns true if it may show the date or the time.
  [[nodiscard]] bool asks_for_time() const { return source_.find("strftime_now") != std::string::npos; }
  // Returns true if it has a {% generation %} block.
  [[nodiscard]] bool marks_generation() const;

 private:
  ChatTemplate() = default;
  std::string source_, where_;
  std::shared_ptr<const jinja::Template> template_;
};

// One conversation to render, with the arguments of transformers' apply_chat_template.
struct ChatInput {
  nlohmann::ordered_json messages;   // list of objects
  nlohmann::ordered_json tools;      // list or null
  nlohmann::ordered_json documents;  // list or null
  bool add_generation_prompt = false;
  bool continue_final_message = false;  // leaves the last message open: text after it is cut off; gives no spans
  // Further variables by name: special tokens (bos_token, eos_token, ...) and chat_template_kwargs.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
};

// Renders by the rules of transformers: message keys whose value is null are dropped, reasoning is copied between its
// names (reasoning_content, thinking, reasoning), an empty conversation is refused. Throws InputError.
[[nodiscard]] ChatTemplate::Rendered render_chat(const ChatTemplate& chat_template, const ChatInput& input,
                                                 const std::optional<std::tm>& now = {});

// The templates of a tokenizer, which may have one of its own for conversations with tools.
struct ChatTemplates {
  ChatTemplate usual;
  std::optional<ChatTemplate> tool_use;

  [[nodiscard]] static ChatTemplates compile(std::string usual, std::optional<std::string> tool_use,
                                             std::string_view where);
  // Returns the template for these tools. As in transformers, an empty list counts as tools; null does not.
  [[nodiscard]] const ChatTemplate& for_tools(const nlohmann::ordered_json& tools) const;
};

// Returns the source for axolotl's `chat_template` key: a built-in name (chatml, llama3, alpaca, ...), `jinja` (then
// `jinja` holds the source), `tokenizer_default` or `tokenizer_default_fallback_NAME` (`tokenizer` holds the
// tokenizer's own template or nothing). Throws InputError naming the choices.
[[nodiscard]] std::string resolve_chat_template(std::string_view choice, const std::optional<std::string>& jinja,
                                                const std::optional<std::string>& tokenizer);

// The template chosen by the keys of a config: `choice` may be empty, and `jinja` a file's name, which a text with tags
// never is.
struct ChosenTemplate {
  std::string source, where;  // `where` names it in errors
};
[[nodiscard]] ChosenTemplate choose_chat_template(std::string choice, std::string jinja,
                                                  const std::optional<std::string>& tokenizer);

// Returns a built-in template by axolotl's name, or nullopt.
[[nodiscard]] std::optional<std::string_view> builtin_chat_template(std::string_view name);
[[nodiscard]] std::vector<std::string_view> builtin_chat_template_names();

}  // namespace spillway::text
