#include "text/grammar/json_schema.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "io/file.h"
#include "text/grammar/byte_automaton.h"

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

TEST_CASE("what is not supported, is no schema or cannot be met is told with its place") {
  CHECK(schema_error(R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "a+"}}})") ==
        "[schema.json: properties.a] expected keywords of JSON Schema that are supported here, got 'pattern'; leave "
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
  CHECK(
      schema_error(R"({"type": "number", "minimum": 0})").find("[schema.json: minimum] expected bounds of integers") ==
      0);
  CHECK(schema_error(R"({"type": "string", "format": "email"})").find("[schema.json: format] expected date, time") ==
        0);
  CHECK(schema_error(R"({"items": [{"type": "integer"}], "type": "array"})").find("prefixItems") != std::string::npos);
  CHECK(schema_error(R"({"$ref": "#/$defs/a", "minimum": 1, "$defs": {"a": {"type": "integer"}}})")
            .find("expected $ref alone, got 'minimum' beside it") != std::string::npos);
  CHECK(schema_error(R"({"type": "string", "maxLength": 100000})").find("from 0 to 10000") != std::string::npos);
}
