#include "text/left_out_warnings.h"

#include <doctest/doctest.h>

#include <fstream>

#include "base/error.h"

namespace spillway::text {
namespace {

using Json = nlohmann::ordered_json;

// Passes the system message on only where the last message is a user's, as the template of Mistral 7B Instruct v0.3.
constexpr const char* kForgetsSystem =
    "{%- if messages[0].role == 'system' %}{%- set system = messages[0].content %}{%- set rest = messages[1:] %}"
    "{%- else %}{%- set rest = messages %}{%- endif %}{%- for m in rest %}{%- if m.role == 'user' %}"
    "{%- if loop.last and system is defined %}{{- '[INST] ' + system + '\n\n' + m.content + '[/INST]' }}"
    "{%- else %}{{- '[INST] ' + m.content + '[/INST]' }}{%- endif %}"
    "{%- elif m.role == 'assistant' %}{{- ' ' + m.content + '</s>' }}{%- endif %}{%- endfor %}";

std::vector<LeftOut> left_out_by(const std::string& source, const Json& messages, const Json& tools = {}) {
  const ChatTemplate chat = ChatTemplate::compile(source, "test");
  const ChatInput input{.messages = messages, .tools = tools};
  return left_out(chat, input, render_chat(chat, input).text);
}

std::vector<LeftOut> left_out_by_named(const char* name, const Json& messages, const Json& tools = {}) {
  return left_out_by(std::string(builtin_chat_template(name).value()), messages, tools);
}

Json parsed(const char* text) { return Json::parse(text); }

}  // namespace

TEST_CASE("what a named template leaves out is what the public template's text lacks") {
  std::ifstream file(SPILLWAY_SOURCE_DIR "/tests/golden/named_chats.json");
  const Json golden = Json::parse(file);
  // A word that only this part of a conversation has, and another way in which JSON may write it.
  struct Telling {
    const char* conversation;
    LeftOut part;
    const char *word, *escaped;
  };
  const Telling kTelling[] = {{"with system", {0, MessagePart::kText, true}, "Be brief.", ""},
                              {"with system", {1, MessagePart::kText, true}, "Hi", ""},
                              {"with system", {2, MessagePart::kText, true}, "Hello there", ""},
                              {"with system", {3, MessagePart::kText, true}, "Bye", ""},
                              {"thinking", {1, MessagePart::kThought, false}, "\nhm\n", ""},
                              {"thinking", {2, MessagePart::kText, true}, "sure?", ""},
                              {"thinking", {3, MessagePart::kThought, false}, "let me see", ""},
                              {"tool call", {1, MessagePart::kToolCall, true}, "Köln", "K\\u00f6ln"},
                              {"tool call", {3, MessagePart::kText, true}, "21.5 degrees", ""},
                              {"parts", {0, MessagePart::kText, false}, "what is it", ""},
                              {"parts", {1, MessagePart::kText, true}, "a cat", ""}};
  int64_t checked = 0, missing = 0;
  for (const Json& c : golden["cases"]) {
    if (c.contains("error")) continue;
    const auto name = c["template"].get<std::string>(), conversation = c["conversation"].get<std::string>();
    CAPTURE(name);
    CAPTURE(conversation);
    const Json& option = golden["options"][c["option"].get<size_t>()];
    const ChatInput input{.messages = golden["conversations"][conversation],
                          .tools = option["tools"],
                          .documents = option["documents"],
                          .add_generation_prompt = option["add_generation_prompt"],
                          .continue_final_message = option["continue_final_message"],
                          .variables = option["variables"]};
    const auto& text = c["text"].get_ref<const std::string&>();
    const ChatTemplate chat = ChatTemplate::compile(std::string(builtin_chat_template(name).value()), name);
    const std::vector<LeftOut> parts = left_out(chat, input, text, std::tm{});
    for (const Telling& telling : kTelling) {
      if (conversation != telling.conversation) continue;
      CAPTURE(telling.word);
      const bool lacks = text.find(telling.word) == std::string::npos &&
                         (*telling.escaped == '\0' || text.find(telling.escaped) == std::string::npos);
      CHECK((std::find(parts.begin(), parts.end(), telling.part) != parts.end()) == lacks);
      ++checked;
      missing += lacks ? 1 : 0;
    }
  }
  CHECK(checked > 400);
  CHECK(missing > 50);
}

TEST_CASE("messages of roles that a template does not know are left out") {
  const Json unknown = parsed(R"([{"role": "human", "content": "alpha"}, {"role": "gpt", "content": "beta"}])");
  CHECK(left_out_by_named("qwen_25", unknown) ==
        std::vector<LeftOut>{{0, MessagePart::kText, true}, {1, MessagePart::kText, true}});
  const Json developer = parsed(
      R"([{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "alpha"},
          {"role": "assistant", "content": "beta"}])");
  const auto parts = left_out_by_named("qwen_25", developer);
  CHECK(parts == std::vector<LeftOut>{{0, MessagePart::kText, true}});
  CHECK(name_of(kind_of(parts[0], developer), 2) == "developer messages");
}

TEST_CASE("a system message counts as shown wherever it stands, and as left out where it does not") {
  const Json ends_with_user =
      parsed(R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it so?"}])");
  CHECK(left_out_by(kForgetsSystem, ends_with_user).empty());
  Json answered = ends_with_user;
  answered.push_back({{"role", "assistant"}, {"content", "It is."}});
  CHECK(left_out_by(kForgetsSystem, answered) == std::vector<LeftOut>{{0, MessagePart::kText, true}});
}

TEST_CASE("texts that a template trims, escapes, moves or splits are shown") {
  const Json chat = parsed(
      R"([{"role": "user", "content": "  one\n\"two\"\t "}, {"role": "assistant", "content": "<think>\nthree\n</think>\n\nfour"}])");
  for (const char* source :
       {"{% for m in messages %}{{ m.content | trim }};{% endfor %}",
        "{% for m in messages %}{{ m.content | tojson }};{% endfor %}", "{{ messages | tojson }}",
        "{% for m in messages | reverse %}{{ m.content }};{% endfor %}",
        "{% for m in messages %}{% if '</think>' in m.content %}[{{ "
        "m.content.split('</think>')[0].split('<think>')[-1] "
        "| trim }}]{{ m.content.split('</think>')[-1] | trim }}{% else %}{{ m.content }}{% endif %}{% endfor %}"}) {
    CAPTURE(source);
    CHECK(left_out_by(source, chat).empty());
  }
  CHECK(left_out_by("{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}", chat) ==
        std::vector<LeftOut>{{1, MessagePart::kThought, false}});
}

TEST_CASE("tool calls in any form are shown, and those that no text has are left out") {
  const Json chat = parsed(
      R"([{"role": "user", "content": "weather in Oslo"}, {"role": "assistant", "content": "", "tool_calls": [
          {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo", "days": 2}}}]}])");
  Json as_text = chat;
  as_text[1]["tool_calls"][0]["function"]["arguments"] = R"({"city": "Oslo", "days": 2})";
  const Json tools = parsed(R"([{"type": "function", "function": {"name": "weather", "parameters": {}}}])");
  for (const Json& messages : {chat, as_text}) {
    for (const char* form : {"{{ c.function | tojson }}", "<{{ c.function.name }}>", "{{ c.function.arguments }}",
                             "{{ c.id }}({{ c.function.arguments | tojson }})"}) {
      const std::string source =
          "{% for t in tools %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ m.content "
          "}}{% for c in m.tool_calls or [] %}" +
          std::string(form) + "{% endfor %}{% endfor %}";
      CAPTURE(source);
      CHECK(left_out_by(source, messages, tools).empty());
    }
    // The name stands in the text: among the tools, and in the user's words.
    CHECK(left_out_by("{% for t in tools %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ m.content }}"
                      "{% endfor %}",
                      messages, tools) == std::vector<LeftOut>{{1, MessagePart::kToolCall, true}});
  }
}

TEST_CASE("tools in any form are shown, and those whose names and descriptions no text has are left out") {
  const Json chat =
      parsed(R"([{"role": "user", "content": "weather in Oslo"}, {"role": "assistant", "content": "mild"}])");
  const Json tools = parsed(
      R"([{"type": "function", "function": {"name": "weather", "description": "The weather of a town, for three days.",
           "parameters": {"type": "object", "properties": {"town": {"type": "string"}}}}}, {"name": "time"}])");
  const std::string messages = "{% for m in messages %}{{ m.content }}{% endfor %}";
  for (const char* form : {"{{ tools | tojson }}", "{% for t in tools %}{{ (t.function or t).name }}{% endfor %}"}) {
    CAPTURE(std::string(form));
    CHECK(left_out_by(form + messages, chat, tools).empty());
  }
  const LeftOut first{2, MessagePart::kTool, true}, second = first;
  CHECK(left_out_by(messages, chat, tools) == std::vector<LeftOut>{first, second});
  CHECK(left_out_by("{% for t in tools %}{{ t.name }}{% endfor %}" + messages, chat, tools) ==
        std::vector<LeftOut>{{2, MessagePart::kTool, false}});
  CHECK(left_out_by(messages, chat, Json::array()).empty());
}

TEST_CASE("a short answer that stands elsewhere in the text is left out all the same") {
  for (const char* answer : {"end", "no", "positive", "user"}) {
    CAPTURE(answer);
    const Json chat = {{{"role", "user"}, {"content", "positive or negative? no words, please"}},
                       {{"role", "model"}, {"content", answer}},
                       {{"role", "user"}, {"content", "positive or not"}}};
    CHECK(left_out_by_named("qwen_25", chat) == std::vector<LeftOut>{{1, MessagePart::kText, true}});
  }
}

TEST_CASE("images, and texts by names that no template reads, are left out") {
  const Json image = parsed(
      R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a.png"}}, {"type": "text", "text": "what is it"}]},
          {"role": "assistant", "content": "a fox"}])");
  const char* lists =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}"
      "{% endfor %}{% endif %}{% endfor %}";
  CHECK(left_out_by(lists, image) == std::vector<LeftOut>{{0, MessagePart::kMedia, false}});
  const Json other_name =
      parsed(R"([{"role": "user", "text": "what is it"}, {"role": "assistant", "content": "a fox"}])");
  CHECK(left_out_by("{% for m in messages %}{{ m.content }}{% endfor %}", other_name) ==
        std::vector<LeftOut>{{0, MessagePart::kText, true}});
}

TEST_CASE("messages without words are not missed") {
  const Json empty = parsed(
      R"([{"role": "system", "content": ""}, {"role": "user", "content": " \n"}, {"role": "assistant", "content": null},
          {"role": "tool", "name": "f", "tool_call_id": "x"}])");
  CHECK(left_out_by("nothing", empty).empty());
}

TEST_CASE("a last message that the template leaves out cannot be answered") {
  const ChatTemplate chat = ChatTemplate::compile(std::string(builtin_chat_template("qwen_25").value()), "test");
  LeftOutWarnings warnings;
  const auto check = [&](const Json& messages) {
    const ChatInput input{.messages = messages, .add_generation_prompt = true};
    warnings.check(chat, input, render_chat(chat, input).text, "chat.json");
  };
  CHECK_NOTHROW(
      check(parsed(R"([{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "hello"}])")));
  CHECK_THROWS_WITH_AS(check(parsed(R"([{"role": "human", "content": "hello"}])")),
                       doctest::Contains("[chat.json] expected a chat template that shows message 1 ('human')"),
                       InputError);
}

}  // namespace spillway::text
