#include "text/chat_template.h"

#include <doctest/doctest.h>

#include <fstream>

#include "base/error.h"

namespace spillway::text {
namespace {

using Json = nlohmann::ordered_json;

std::string render(const std::string& source, const Json& variables = Json::object()) {
  return ChatTemplate::compile(source, "test").render(variables).text;
}

std::string render_error(const std::string& source, const Json& variables = Json::object()) {
  try {
    (void)render(source, variables);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

Json read_golden(const std::string& name) {
  std::ifstream file(std::string(SPILLWAY_SOURCE_DIR "/tests/golden/") + name);
  REQUIRE(file.good());
  return Json::parse(file);
}

// Returns 2025-03-09 17:04:05, a Sunday.
std::tm golden_time() {
  std::tm now{};
  now.tm_year = 125, now.tm_mon = 2, now.tm_mday = 9, now.tm_hour = 17, now.tm_min = 4, now.tm_sec = 5, now.tm_wday = 0,
  now.tm_yday = 67;
  return now;
}

ChatInput golden_input(const Json& c) {
  return {.messages = c["messages"],
          .tools = c["tools"],
          .documents = c["documents"],
          .add_generation_prompt = c["add_generation_prompt"],
          .continue_final_message = c["continue_final_message"],
          .variables = c["variables"]};
}

}  // namespace

// The texts are those of Python's json.loads, jinja2 and json.dumps.
TEST_CASE("integers beyond 64 bits with a sign keep their digits") {
  const Json variables = Json::parse(R"({"a": {"id": 12345678901234567890, "n": 9223372036854775808}})");
  CHECK(render("{{ a.id }} {{ a.id | tojson }} {{ a | tojson }} {{ a }}", variables) ==
        "12345678901234567890 12345678901234567890 {\"id\": 12345678901234567890, \"n\": 9223372036854775808} "
        "{'id': 12345678901234567890, 'n': 9223372036854775808}");
  CHECK(render("{{ a.id is integer }} {{ a.id is float }} {{ a.id is number }} {{ a.id | int }} {{ a.id == a.id }} "
               "{{ a.id == a.n }} {{ a.id > a.n }} {{ a.id ~ '!' }} {{ a.id | string | length }}",
               variables) == "True False True 12345678901234567890 True False True 12345678901234567890! 20");
}

TEST_CASE("templates render as jinja2 renders them in transformers' environment") {
  const Json cases = read_golden("jinja.json");
  REQUIRE(cases.size() > 100);
  for (const Json& c : cases) {
    const std::string source = c["source"];
    CAPTURE(source);
    std::string text;
    try {
      text = ChatTemplate::compile(source, "test").render(c["variables"], golden_time()).text;
    } catch (const InputError& error) {
      CAPTURE(std::string(error.what()));
      CHECK_MESSAGE(c.contains("error"), "a failure where jinja2 has none: " << error.what());
      continue;
    }
    CHECK_FALSE_MESSAGE(c.contains("error"), "no failure where jinja2 says: " << c["error"].dump() << " got " << text);
    if (c.contains("text")) CHECK(text == c["text"].get<std::string>());
  }
}

TEST_CASE("conversations render as transformers renders them") {
  const Json golden = read_golden("chats.json");
  REQUIRE(golden["cases"].size() > 100);
  for (const Json& c : golden["cases"]) {
    CAPTURE(c["name"].dump());
    const ChatTemplate chat = ChatTemplate::compile(golden["templates"][c["template"].get<std::string>()], "test");
    const ChatInput input = golden_input(c);
    if (c.contains("error")) {
      CHECK_THROWS_AS((void)render_chat(chat, input, golden_time()), InputError);
      continue;
    }
    const ChatTemplate::Rendered rendered = render_chat(chat, input, golden_time());
    CHECK(rendered.text == c["text"].get<std::string>());
    CHECK(Json(rendered.generation_spans) == c["generation_spans"]);
  }
}

TEST_CASE("named templates render as the public ones do") {
  const Json golden = read_golden("named_chats.json");
  REQUIRE(golden["cases"].size() > 300);
  for (const Json& c : golden["cases"]) {
    const auto name = c["template"].get<std::string>(), conversation = c["conversation"].get<std::string>();
    CAPTURE(name);
    CAPTURE(conversation);
    const auto source = builtin_chat_template(name);
    REQUIRE(source);
    const ChatTemplate chat = ChatTemplate::compile(std::string(*source), name);
    Json all = golden["options"][c["option"].get<size_t>()];
    all["messages"] = golden["conversations"][conversation];
    const ChatInput input = golden_input(all);
    if (c.contains("error")) {
      CHECK_THROWS_AS((void)render_chat(chat, input, golden_time()), InputError);
      continue;
    }
    const ChatTemplate::Rendered rendered = render_chat(chat, input, golden_time());
    CHECK(rendered.text == c["text"].get<std::string>());
    CHECK(Json(rendered.generation_spans) == c["generation_spans"]);
  }
}

TEST_CASE("errors of a template name it and the line, on one line") {
  CHECK(render_error("a\n{{ x.y }}") == "[test, line 2] 'x' is undefined; correct the messages or the template");
  CHECK(render_error("{% if x %}") ==
        "[test, line 1] expected '{% endif %}', got the end of the template; correct the template");
  CHECK(render_error("\n\n{{ 1 +* 2 }}") == "[test, line 3] expected an expression, got '*'; correct the template");
  CHECK(
      render_error("{{ raise_exception('no\ntools\x1b[2J') }}") ==
      "[test, line 1] expected a conversation that the template takes, got 'no\\ntools\\x1b[2J'; change the messages");
  CHECK(render_error("{% include 'x' %}").find("in one piece") != std::string::npos);
  CHECK(render_error("{{ x | nosuch }}").find("'nosuch'") != std::string::npos);
  CHECK(render_error("{% set ns = namespace() %}{{ [].append(1) }}").find("unsafe") != std::string::npos);
}

TEST_CASE("self has no blocks") { CHECK(render("[{{ self.greeting }}{{ self.greeting is defined }}]") == "[False]"); }

TEST_CASE("a template that does not end is refused") {
  CHECK(render_error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("calls itself too deep") !=
        std::string::npos);
  CHECK(render_error("{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}")
            .find("still running") != std::string::npos);
  CHECK(render_error("{% set ns = namespace(s='x') %}{% for i in range(90) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}")
            .find("still running") != std::string::npos);
  CHECK(render_error("{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = ns.l + ns.l %}{% endfor %}")
            .find("still running") != std::string::npos);
  CHECK(
      render_error(
          "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}")
          .find("still running") != std::string::npos);
  CHECK(render_error(
            "{% set ns = namespace(l=[1]) %}{% for i in range(9000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}")
            .find("levels deep") != std::string::npos);
  CHECK(render_error("{{ 'x' * 1000000000000 }}").find("still running") != std::string::npos);
  CHECK(render_error("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}").find("nesting") !=
        std::string::npos);
  std::string chain = "{{ 1";
  for (int i = 0; i < 5000; ++i) chain += " + 1";
  CHECK(render_error(chain + " }}").find("operations deep") != std::string::npos);
}

TEST_CASE("a namespace that holds itself does not leak or hang") {
  CHECK(
      render(
          "{% set ns = namespace() %}{% set ns.me = ns %}{% macro f() %}{{ ns }}{% endmacro %}{% set ns.f = f %}ok") ==
      "ok");
  CHECK(render("{% set ns = namespace(x=0) %}{% for i in range(3000) %}{% for a in [ns.x] %}{% set ns.x = loop %}{% "
               "endfor %}{% endfor %}ok") == "ok");
}

TEST_CASE("a conversation with tools gets the template for tools, where there is one") {
  const auto shown = [](const ChatTemplates& templates, const Json& tools) {
    return templates.for_tools(tools).render(Json::object()).text;
  };
  const ChatTemplates two = ChatTemplates::compile("usual", "for tools", "w");
  CHECK(shown(two, Json()) == "usual");
  CHECK(shown(two, Json::array()) == "for tools");
  CHECK(shown(ChatTemplates::compile("usual", std::nullopt, "w"), Json::array()) == "usual");
}

TEST_CASE("a template is chosen by name, or is the tokenizer's own") {
  CHECK(resolve_chat_template("tokenizer_default", std::nullopt, "own") == "own");
  CHECK(resolve_chat_template("tokenizer_default_fallback_chatml", std::nullopt, "own") == "own");
  CHECK(resolve_chat_template("tokenizer_default_fallback_chatml", std::nullopt, std::nullopt) ==
        *builtin_chat_template("chatml"));
  CHECK_THROWS_AS((void)resolve_chat_template("nosuch", std::nullopt, "own"), InputError);
  CHECK_THROWS_AS((void)resolve_chat_template("tokenizer_default", std::nullopt, std::nullopt), InputError);
}

}  // namespace spillway::text
