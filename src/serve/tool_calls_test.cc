#include "serve/tool_calls.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "text/chat_template.h"
#include "text/grammar/byte_automaton.h"

using namespace spillway::serve;
using spillway::text::builtin_chat_template;

namespace {

struct Answer {
  std::string content;
  std::vector<ToolCall> calls;
};

// Reads the text in pieces of `size` bytes.
Answer read(ToolFormat format, std::string_view text, size_t size) {
  ToolCallReader reader(format, {"weather", "time"});
  Answer answer;
  const auto add = [&](const ToolCallReader::Read& read) {
    answer.content += read.content;
    answer.calls.insert(answer.calls.end(), read.calls.begin(), read.calls.end());
  };
  for (size_t i = 0; i < text.size(); i += size) add(reader.push(text.substr(i, size)));
  add(reader.finish());
  return answer;
}

void check(ToolFormat format, std::string_view text, const std::string& content, const std::vector<ToolCall>& calls) {
  for (const size_t size : {size_t{1}, size_t{3}, size_t{7}, std::max<size_t>(text.size(), 1)}) {
    CAPTURE(text);
    CAPTURE(size);
    const Answer answer = read(format, text, size);
    CHECK(answer.content == content);
    CHECK(answer.calls == calls);
  }
}

const ToolCall kParis{"weather", R"({"city":"Paris"})"}, kTime{"time", "{}"};

}  // namespace

TEST_CASE("calls of Hermes and Qwen stand between marks, and what is none stays text") {
  const auto hermes = [](std::string_view text, const std::string& content, const std::vector<ToolCall>& calls) {
    check(ToolFormat::kHermes, text, content, calls);
  };
  hermes("plain < text \n", "plain < text \n", {});
  hermes("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>", "", {kParis});
  hermes(
      "I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": "
      "\"Paris\"}}\n</tool_call>\n<tool_call>{\"name\": "
      "\"time\", \"arguments\": {}}</tool_call>\n",
      "I look.", {kParis, kTime});
  hermes("<tool_call>{\"name\": \"time\"}", "", {kTime});  // the closing mark is missing
  hermes(R"(<tool_call>{"name": "weather", "arguments": "{\"city\": \"Paris\"}"}</tool_call>)", "", {kParis});
  hermes(R"(<tool_call>{"name": "time", "arguments": {"a": "</tool_call>"}}</tool_call>)", "",
         {{"time", R"({"a":"</tool_call>"})"}});
  hermes("<tool_call>no JSON</tool_call> and text", "<tool_call>no JSON</tool_call> and text", {});
  hermes("a <tool_call>{\"name\": \"ti", "a<tool_call>{\"name\": \"ti", {});
}

TEST_CASE("calls of Llama 3 are the whole answer, by the names of the tools") {
  const auto llama = [](std::string_view text, const std::string& content, const std::vector<ToolCall>& calls) {
    check(ToolFormat::kLlama3, text, content, calls);
  };
  llama(R"({"name": "weather", "parameters": {"city": "Paris"}})", "", {kParis});
  llama(R"(<|python_tag|>{"name": "weather", "parameters": {"city": "Paris"}}; {"name": "time", "parameters": {}})", "",
        {kParis, kTime});
  llama(R"({"name": "Ada", "parameters": {}})", R"({"name": "Ada", "parameters": {}})", {});
  llama("Hello {", "Hello {", {});
  llama("{\"name\": ", "{\"name\": ", {});
  llama("<|python_tag|>print(1)", "<|python_tag|>print(1)", {});
  llama("", "", {});
}

TEST_CASE("calls of Mistral are a list behind a mark, or names with arguments") {
  const auto mistral = [](std::string_view text, const std::string& content, const std::vector<ToolCall>& calls) {
    check(ToolFormat::kMistral, text, content, calls);
  };
  mistral(R"([TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Paris"}}, {"name": "time", "arguments": {}}])",
          "", {kParis, kTime});
  mistral(R"(Well. [TOOL_CALLS]weather[ARGS]{"city": "Paris"}[TOOL_CALLS]time{})", "Well.", {kParis, kTime});
  mistral("[TOOL", "[TOOL", {});
  mistral("[TOOL_CALLS] [3]", "[TOOL_CALLS] [3]", {});
  mistral("[TOOL_CALLS] [{", "[TOOL_CALLS] [{", {});
}

TEST_CASE("a template's format is seen in its source") {
  const auto format_of = [](const char* name) { return tool_format_of(*builtin_chat_template(name)); };
  CHECK(format_of("qwen_25") == ToolFormat::kHermes);
  CHECK(format_of("qwen3") == ToolFormat::kHermes);
  CHECK(format_of("llama3_2_vision") == ToolFormat::kLlama3);
  CHECK(format_of("mistral_v3_tekken") == ToolFormat::kMistral);
  CHECK(format_of("chatml") == ToolFormat::kNone);
  CHECK(tool_format_of("<tool_call>\n<function=") == ToolFormat::kNone);
}

namespace {

bool is_whole(const spillway::text::FramedDocuments& calls, std::string_view text) {
  using spillway::text::ByteAutomaton;
  ByteAutomaton automaton(framed_json_grammar(calls));
  ByteAutomaton::State state = ByteAutomaton::kStart;
  for (const char c : text) {
    if (state != ByteAutomaton::kDead) state = automaton.step(state, static_cast<uint8_t>(c));
  }
  return state != ByteAutomaton::kDead && automaton.is_whole(state);
}

}  // namespace

TEST_CASE("forced calls are written as the templates show them, and read back") {
  using Json = nlohmann::ordered_json;
  const std::vector<Json> tools = {
      Json::parse(R"({"type": "function", "function": {"name": "weather", "parameters": {"type": "object",
                      "properties": {"city": {"type": "string"}}, "required": ["city"]}}})"),
      Json::parse(R"({"name": "time"})")};
  struct Case {
    ToolFormat format;
    const char* chat_template;
    const char *one, *two;
  };
  const Case kCases[] = {
      {ToolFormat::kHermes, "<tool_call>",
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>",
       "\n<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>"},
      {ToolFormat::kLlama3, "<|python_tag|>", "{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\"}}",
       "; {\"name\": \"time\", \"parameters\": {}}"},
      {ToolFormat::kMistral, "[TOOL_CALLS][ARGS]", "[TOOL_CALLS]weather[ARGS]{\"city\": \"Rome\"}",
       "[TOOL_CALLS]time[ARGS]{}"}};
  for (const Case& one : kCases) {
    const std::string two = std::string(one.one) + one.two;
    CAPTURE(two);
    const auto calls = forced_calls(one.format, one.chat_template, tools, false, "tools");
    CHECK(is_whole(calls, one.one));
    CHECK(is_whole(calls, two));
    CHECK_FALSE(is_whole(calls, "Hello"));
    CHECK_FALSE(is_whole(forced_calls(one.format, one.chat_template, tools, true, "tools"), two));
    CHECK_FALSE(is_whole(forced_calls(one.format, one.chat_template, {tools[1]}, true, "tools"), one.one));
    check(one.format, two, "", {{"weather", R"({"city":"Rome"})"}, {"time", "{}"}});
  }
  const std::string list = R"([{"name": "weather", "arguments": {"city": "Rome"}}, {"name": "time", "arguments": {}}])";
  const auto of_list = [&](std::string_view chat_template) {
    return forced_calls(ToolFormat::kMistral, chat_template, tools, false, "tools");
  };
  CHECK(is_whole(of_list("[TOOL_CALLS][{"), "[TOOL_CALLS]" + list));
  CHECK(is_whole(of_list(*builtin_chat_template("mistral_v2v3")), "[TOOL_CALLS] " + list));
}
