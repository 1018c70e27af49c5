// Renders the input: a template, a NUL byte, and the JSON of its variables (messages and what else it names).
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const std::string_view text = end == std::string_view::npos ? std::string_view() : input.substr(end + 1);
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  std::tm now{};
  try {
    const auto chat = text::ChatTemplate::compile(std::string(input.substr(0, end)), "fuzz");
    text::ChatInput conversation;
    conversation.messages =
        json.is_array() ? json : nlohmann::ordered_json::parse(R"([{"role": "user", "content": "hi"}])");
    if (json.is_object()) conversation.variables = json;
    (void)text::render_chat(chat, conversation, now);
  } catch (const InputError&) {
  }
  return 0;
}
