#include "text/grammar/json_schema.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/file.h"
#include "text/grammar/byte_automaton.h"
#include "text/python_regex.h"

using namespace spillway;
using namespace spillway::text;
using Json = nlohmann::ordered_json;

namespace {

bool accepts(ByteAutomaton& automaton, std::string_view text) {
  ByteAutomaton::State state = ByteAutomaton::kStart;
  for (const char c : text) {
    state = automaton.step(state, static_cast<uint8_t>(c));
    if (state == ByteAutomaton::kDead) return false;
  }
  return automaton.is_whole(state);
}

std::string schema_error(const std::string& schema) {
  try {
    (void)json_schema_grammar(Json::parse(schema), "schema.json");
    return "none";
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a document is taken if the library jsonschema takes it") {
  const Json golden = Json::parse(read_file(SPILLWAY_SOURCE_DIR "/tests/golden/json_schemas.json", 1 << 24));
  for (const Json& c : golden) {
    CAPTURE(c["name"].get<std::string>());
    ByteAutomaton automaton(json_schema_grammar(c["schema"], "schema"));
    REQUIRE(!c["valid"].empty());
    for (const char* verdict : {"valid", "invalid"}) {
      for (const std::string text : c[verdict]) {
        CAPTURE(text);
        CHECK(accepts(automaton, text) == (verdict == std::string_view("valid")));
      }
    }
  }
}

TEST_CASE("JSON mode takes objects alone, in well-formed UTF-8, with little white space") {
  ByteAutomaton automaton(json_object_grammar());
  for (const char* text : {"{}", "{ }", "\n{\"a\": [1, {\"b\": null}], \"\\u00e9\": -0.5e+10}", "{\"\xC3\xA9\": true}"})
    CHECK(accepts(automaton, text));
  for (const char* text : {"[]", "1", "{} ", "{  }", "{\"a\": 01}", "{\"a\": \"\n\"}", "{\"\xC3\": 1}",
                           "{\"\\ud800\": 1}", "{\"a\": 1,}", "{\"\xED\xA0\x80\": 1}"})
    CHECK(!accepts(automaton, text));
}

TEST_CASE("documents stand in their texts, each by its own schema and the references in that") {
  const Json first = Json::parse(R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "boolean"}}})");
  const Json second = Json::parse(R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}})");
  FramedDocuments documents{.open = "<", .separator = ";", .close = ">"};
  documents.alternatives = {{"one:", first, ".", "first"}, {"two:", second, "!", "second"}};
  ByteAutomaton several(framed_json_grammar(documents));
  for (const char* text : {"<one:true.>", "< two:null!>", "<two:null!;one:false.;two:null!>"})
    CHECK(accepts(several, text));
  for (const char* text : {"<>", "<one:null.>", "<two:true!>", "<one:true.", "<one:true.;>", "<one:true!>"})
    CHECK_FALSE(accepts(several, text));
  documents.is_one = true;
  ByteAutomaton one(framed_json_grammar(documents));
  CHECK(accepts(one, "<one:true.>"));
  CHECK_FALSE(accepts(one, "<one:true.;one:true.>"));
  documents.alternatives[1].schema = Json::parse(R"({"type": "null", "not": {}})");
  CHECK_THROWS_WITH_AS((void)framed_json_grammar(documents), doctest::Contains("[second] expected keywords"),
                       InputError);
}

TEST_CASE("bounds of integers are those of the numbers") {
  for (const auto& [low, high] : {std::pair(-12, 34), {0, 0}, {5, 105}, {-1000, -99}, {99, 1001}}) {
    const Json schema = {{"type", "integer"}, {"minimum", low}, {"maximum", high}};
    ByteAutomaton automaton(json_schema_grammar(schema, "schema"));
    for (int i = -1500; i <= 1500; ++i) {
      CAPTURE(i);
      CHECK(accepts(automaton, std::to_string(i)) == (low <= i && i <= high));
    }
  }
}

TEST_CASE("bounds of numbers are those of the numbers that are written") {
  const std::vector<std::string> bounds = {"-12.5", "-12", "-0.25", "0", "0.3", "12.5", "12.75", "100"};
  std::vector<std::string> numbers;
  for (const char* whole : {"0", "1", "11", "12", "13", "99", "100", "101"}) {
    for (const char* fraction : {"", ".0", ".2", ".24", ".25", ".250", ".2501", ".3", ".30", ".31", ".5", ".49", ".51",
                                 ".500000000000001", ".74", ".75", ".76", ".9"}) {
      numbers.push_back(std::string(whole) + fraction);
      if (std::stod(numbers.back()) != 0) numbers.push_back("-" + numbers.back());
    }
  }
  for (const std::string& low : bounds) {
    for (const std::string& high : bounds) {
      if (std::stod(low) >= std::stod(high)) continue;
      for (const bool is_open : {false, true}) {
        CAPTURE(low);
        CAPTURE(high);
        CAPTURE(is_open);
        const std::string between = is_open ? R"("exclusiveMinimum": )" + low + R"(, "exclusiveMaximum": )" + high
                                            : R"("minimum": )" + low + R"(, "maximum": )" + high;
        ByteAutomaton automaton(json_schema_grammar(Json::parse(R"({"type": "number", )" + between + "}"), "schema"));
        for (const std::string& text : numbers) {
          const double number = std::stod(text), from = std::stod(low), to = std::stod(high);
          const bool is_between = is_open ? from < number && number < to : from <= number && number <= to;
          if (accepts(automaton, text) != is_between) FAIL_CHECK(text);
        }
      }
    }
  }
}

TEST_CASE("a bound of a number may be small, in up to 15 digits behind the point") {
  const auto accepted = [](const std::string& low, const std::string& text) {
    ByteAutomaton automaton(
        json_schema_grammar(Json::parse(R"({"type": "number", "minimum": )" + low + "}"), "schema"));
    return accepts(automaton, text);
  };
  CHECK(accepted("0.00001", "0.00001"));
  CHECK(accepted("1e-5", "0.000010"));
  CHECK(accepted("1e-5", "0.1"));
  CHECK(!accepted("1e-5", "0.000009"));
  CHECK(!accepted("1e-5", "0"));
  CHECK(accepted("1e-15", "0.000000000000001"));
  CHECK(accepted("-12.345678901", "-12.345678901"));
  CHECK(!accepted("-12.345678901", "-12.345678902"));
  CHECK(schema_error(R"({"type": "number", "minimum": 1e-16})").find("expected up to 15 digits") != std::string::npos);
}

TEST_CASE("a string has the pattern where PCRE2 finds it") {
  const std::vector<std::string> patterns = {"^a+$",
                                             "a+b",
                                             "^(ab|c)*$",
                                             "^[a-c]{2,3}$",
                                             "[^a-z]$",
                                             "^\\d{3}-\\d{4}$",
                                             "^\\w+@\\w+\\.com$",
                                             "^.$",
                                             "^(?:a?b){1,2}c*?$",
                                             "^[A-Za-z\\d.-]+$",
                                             "^[\xC3\xA9\xE2\x82\xAC-\xF0\x9F\x98\x80]$",
                                             "^\\x41\\u0042$",
                                             "x|^b$|c$",
                                             "",
                                             "^\\{\\}\\.$",
                                             "^[]a]$"};
  const std::vector<std::string> texts = {"",
                                          "a",
                                          "aa",
                                          "ab",
                                          "aab",
                                          "xaabx",
                                          "abc",
                                          "abcab",
                                          "c",
                                          "cc",
                                          "ccc",
                                          "b",
                                          "bc",
                                          "abbcc",
                                          "123-4567",
                                          "123-456",
                                          "me@host.com",
                                          "me@host.org",
                                          "\xC3\xA9",
                                          "\xE2\x82\xAC",
                                          "\xF0\x9F\x98\x80",
                                          "AB",
                                          "x",
                                          "a.b-c",
                                          "{}.",
                                          "z",
                                          "Z",
                                          "1",
                                          "-"};
  for (const std::string& pattern : patterns) {
    if (pattern == "^[]a]$") continue;  // ECMA's class is empty, PCRE2's is not
    CAPTURE(pattern);
    ByteAutomaton automaton(json_schema_grammar(Json{{"type", "string"}, {"pattern", pattern}}, "schema"));
    const PythonRegex regex(pattern, "pattern");
    for (const std::string& text : texts) {
      const bool is_found = !regex.find_all(text).empty();
      if (accepts(automaton, "\"" + text + "\"") != is_found) FAIL_CHECK(text);
    }
  }
  ByteAutomaton quotes(json_schema_grammar(Json{{"type", "string"}, {"pattern", R"(^["\\\n]+$)"}}, "schema"));
  CHECK(accepts(quotes, R"("\"\\\n")"));
  CHECK_FALSE(accepts(quotes, R"("a")"));
  for (const auto& [pattern, what] : {std::pair("(?=a)", "lookahead"),
                                      {"(?<!a)b", "lookbehind"},
                                      {"(a)\\1", "'\\1'"},
                                      {"a^b", "'^' inside"},
                                      {"(a$)b", "'$' inside"},
                                      {"\\bword", "a word boundary"},
                                      {"\\p{L}", "'\\p'"},
                                      {"(a", "'(' without ')'"},
                                      {"a)", "')' without '('"},
                                      {"a{2001}", "a count above 1000"},
                                      {"a**", "a count of a count"},
                                      {"+", "'+' alone"},
                                      {"[b-a]", "a range of characters that is none"},
                                      {"[a", "ends too early"}}) {
    CAPTURE(pattern);
    const std::string error = schema_error(Json{{"type", "string"}, {"pattern", pattern}}.dump());
    CHECK(error.find("[schema.json: pattern] expected a regular expression that a grammar can say") == 0);
    CHECK(error.find(what) != std::string::npos);
  }
}

TEST_CASE("formats take what they are, and nothing near it") {
  const std::pair<const char*, std::pair<std::vector<std::string>, std::vector<std::string>>> formats[] = {
      {"email", {{"a@b.org", "a.b+c@d-e.co.uk"}, {"a", "@b.org", "a@b", "a@-b.org", ".a@b.org"}}},
      {"hostname", {{"a", "a-b.example.com"}, {"", "-a", "a..b", "a_b"}}},
      {"ipv4", {{"0.0.0.0", "192.168.1.255"}, {"256.0.0.1", "1.2.3", "01.2.3.4"}}},
      {"ipv6", {{"2001:db8:0:0:0:0:0:1"}, {"2001:db8::1::2", "12345:0:0:0:0:0:0:1", "1:2"}}},
      {"uri", {{"https://a.org", "http://a.org:80/b/c?d=e#f"}, {"a.org", "https://", "https:// a.org"}}}};
  for (const auto& [format, texts] : formats) {
    CAPTURE(format);
    ByteAutomaton automaton(json_schema_grammar(Json{{"type", "string"}, {"format", format}}, "schema"));
    for (const std::string& text : texts.first) CHECK_MESSAGE(accepts(automaton, "\"" + text + "\""), text);
    for (const std::string& text : texts.second) CHECK_MESSAGE(!accepts(automaton, "\"" + text + "\""), text);
  }
}

TEST_CASE("what is not supported, is no schema or cannot be met is told with its place") {
  CHECK(schema_error(R"({"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 2}}})") ==
        "[schema.json: properties.a] expected keywords of JSON Schema that are supported here, got 'multipleOf'; leave "
        "it out: answers could break it");
  CHECK(schema_error(R"([1])") == "[schema.json] expected a schema (an object, true or false), got [1]; correct it");
  CHECK(schema_error(R"({"type": "float"})").find("[schema.json: type] expected one or several of object") == 0);
  for (const char* schema :
       {"false", R"({"type": "integer", "minimum": 3, "maximum": 2})", R"({"enum": ["a"], "type": "integer"})",
        R"({"type": "object", "required": ["a"], "additionalProperties": false})",
        R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
        R"({"type": "array", "minItems": 3, "maxItems": 2})"}) {
    CAPTURE(schema);
    CHECK(schema_error(schema) ==
          "[schema.json] expected a schema that some document fulfils, got one that none can; correct it");
  }
  CHECK(schema_error(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})").find("refers back to itself") !=
        std::string::npos);
  CHECK(schema_error(R"({"$ref": "#/$defs/none"})").find("[schema.json: $ref] expected a reference to") == 0);
  CHECK(schema_error(R"({"$ref": "other.json"})").find("[schema.json: $ref] expected a reference into") == 0);
  CHECK(schema_error(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})").find("[schema.json: oneOf]") == 0);
  CHECK(schema_error(R"({"allOf": [{"type": "integer"}, {"minimum": 3}]})").find("allOf of one schema") !=
        std::string::npos);
  CHECK(schema_error(R"({"type": "string", "format": "color"})").find("[schema.json: format] expected date, time") ==
        0);
  CHECK(
      schema_error(R"({"type": "number", "minimum": 1e20})").find("[schema.json: minimum] expected up to 15 digits") ==
      0);
  CHECK(schema_error(R"({"type": "string", "pattern": "a", "maxLength": 3})").find("one of pattern, format, and") !=
        std::string::npos);
  CHECK(schema_error(R"({"items": [{"type": "integer"}], "type": "array"})").find("prefixItems") != std::string::npos);
  CHECK(schema_error(R"({"$ref": "#/$defs/a", "minimum": 1, "$defs": {"a": {"type": "integer"}}})")
            .find("expected $ref alone, got 'minimum' beside it") != std::string::npos);
  CHECK(schema_error(R"({"type": "string", "maxLength": 100000})").find("from 0 to 10000") != std::string::npos);
}
