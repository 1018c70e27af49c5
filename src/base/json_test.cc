#include "base/json.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace spillway;

namespace {

std::string nested(int levels) { return std::string(levels, '[') + std::string(levels, ']'); }

}  // namespace

TEST_CASE("a number that no double holds becomes its text, and the other numbers stay as they are") {
  const auto json = parse_json(R"({"a": 1e400, "b": [-1e999, 2.5, 1e308], "c": "1e400"})", "x");
  CHECK(json["a"] == "1e400");
  CHECK(json["b"] == nlohmann::json::array({"-1e999", 2.5, 1e308}));
  CHECK(json["c"] == "1e400");
}

TEST_CASE("nesting beyond what is copied and printed safely is refused, beside numbers that no double holds, too") {
  constexpr const char* kError = "[x] expected at most 200 nested levels, got more; correct the file";
  for (const char* start : {R"({"a": )", R"({"huge": 1e400, "a": )"}) {
    CAPTURE(std::string(start));
    CHECK_NOTHROW((void)parse_json(start + nested(kMaxJsonDepth - 1) + "}", "x"));
    CHECK_THROWS_WITH_AS((void)parse_json(start + nested(kMaxJsonDepth + 1) + "}", "x"), kError, InputError);
    CHECK_THROWS_WITH_AS((void)parse_json<nlohmann::ordered_json>(start + nested(100000) + "}", "x"), kError,
                         InputError);
  }
}

TEST_CASE("what is no JSON is discarded, with or without numbers that no double holds") {
  for (const char* text : {"", "{", "[1e400", "[1e400, nan]", "1e400 2"}) {
    CAPTURE(std::string(text));
    CHECK(parse_json(text, "x").is_discarded());
  }
}

TEST_CASE("broken UTF-8 is printed as the replacement character") {
  CHECK(json_text(nlohmann::json("a\xff")) == "\"a\xef\xbf\xbd\"");
  CHECK(json_text(nlohmann::json::array({1}), 2) == "[\n  1\n]");
}

TEST_CASE("text is read as the library reads it, whatever it holds") {
  for (const char* text : {"null", "true", "[]", "{}", "-3", "18446744073709551615", "1.5e3", "\"a\\u00e9\\n\"",
                           R"({"b": 1, "a": [1, {"c": null, "d": []}, "x"], "b": {"e": {}, "e": 2}, "": false})",
                           R"([[[1], [2, {"a": {"b": [3]}}]], [], {}, -0.0, "é"])"}) {
    CAPTURE(std::string(text));
    CHECK(parse_json(text, "x") == nlohmann::json::parse(text));
    const auto ordered = nlohmann::ordered_json::parse(text);
    CHECK(parse_json<nlohmann::ordered_json>(text, "x").dump() == ordered.dump());
    CHECK(parse_json<nlohmann::ordered_json>(text, "x").type() == ordered.type());
  }
  CHECK_THROWS_AS((void)read_json("[1,", "x"), nlohmann::json::parse_error);
  CHECK_THROWS_AS((void)read_json("[1] 2", "x"), nlohmann::json::parse_error);
  CHECK_THROWS_AS((void)read_json("[1e400]", "x"), nlohmann::json::out_of_range);
}

TEST_CASE("an object keeps the order of its members and the last value of each, with an index and without") {
  for (const int members : {3, 31, 32, 33, 500}) {
    CAPTURE(members);
    std::string text = "{", expected = "{";
    for (int i = 0; i < members; ++i) text += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",";
    expected = text;
    text += "\"k1\":-1,\"last\":0,\"k0\":-2}";
    expected.replace(expected.find("\"k1\":1"), 6, "\"k1\":-1").replace(expected.find("\"k0\":0"), 6, "\"k0\":-2");
    CHECK(parse_json<nlohmann::ordered_json>(text, "x").dump() == expected + "\"last\":0}");
  }
}
