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
