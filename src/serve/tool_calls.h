// Finds the tool calls in an answer, as models write them that were trained with one of the known chat templates.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/json_schema.h"
#include "text/tokenizer.h"

namespace spillway::serve {

enum class ToolFormat {
  kNone,     // calls are not known, and stay text
  kHermes,   // <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen, SmolLM3
  kLlama3,   // the answer is {"name": ..., "parameters": {...}}, several with ; between, maybe behind <|python_tag|>
  kMistral,  // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...], or since v11 [TOOL_CALLS]name[ARGS]{...}
};

// Returns the format that a chat template shows calls in.
[[nodiscard]] ToolFormat tool_format_of(std::string_view chat_template);
// Returns the marks of a format: where they are special tokens of a model, they are read as text all the same.
[[nodiscard]] std::vector<std::string> marks_of(ToolFormat format);

// Returns the special tokens among the marks of a format.
[[nodiscard]] std::vector<int32_t> special_marks(const text::Tokenizer& tokenizer, ToolFormat format);

// Returns answers that are one call of one of these functions, or several, as the chat template shows calls. A tool is
// OpenAI's {"type": "function", "function": {"name", "parameters"}}, or the function alone. `where` names their list in
// messages. REQUIRES: a known format, and at least one tool, each with a name.
[[nodiscard]] text::FramedDocuments forced_calls(ToolFormat format, std::string_view chat_template,
                                                 const std::vector<nlohmann::ordered_json>& tools, bool is_one,
                                                 std::string_view where);

// Returns the object with the name and the parameters of a tool.
[[nodiscard]] const nlohmann::ordered_json& function_of(const nlohmann::ordered_json& tool);
// Returns the name of a tool's function; empty if it has none.
[[nodiscard]] std::string function_name(const nlohmann::ordered_json& tool);

struct ToolCall {
  std::string name, arguments;  // the latter as the text of a JSON object
  std::string id = {};
  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

// Reads an answer as it grows. Not thread-safe.
class ToolCallReader {
 public:
  // `tools` are the names of the tools; a call of kLlama3 is one of these, since it has no mark of its own.
  ToolCallReader(ToolFormat format, std::set<std::string, std::less<>> tools)
      : format_(format), tools_(std::move(tools)) {}

  struct Read {
    std::string content;  // text that is no call for certain
    std::vector<ToolCall> calls;
  };
  // Appends text; returns what is certain with it. White space before and behind calls belongs to neither.
  [[nodiscard]] Read push(std::string_view text);
  // Returns the rest: a call that is not complete, or no JSON, is text.
  [[nodiscard]] Read finish();

 private:
  enum class Step { kDone, kWaits };  // kDone: something was read, and there may be more

  [[nodiscard]] Read read(bool is_end);
  [[nodiscard]] Step read_hermes(bool is_end, Read& read);
  [[nodiscard]] Step read_llama3(bool is_end, Read& read);
  [[nodiscard]] Step read_mistral(bool is_end, Read& read);
  [[nodiscard]] Step read_text_before(std::string_view mark, bool is_end, Read& read);
  void tell(size_t bytes, Read& read);

  ToolFormat format_;
  std::set<std::string, std::less<>> tools_;
  std::string held_;
  bool is_text_ = false;  // kLlama3: what follows is no call
  bool after_call_ = false;
};

}  // namespace spillway::serve
