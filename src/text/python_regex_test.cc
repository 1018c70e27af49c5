// Compares with Python's re: tests/golden/eval/patterns.json (tools/make_eval_goldens.py).
#include "text/python_regex.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::text;
using nlohmann::json;

TEST_CASE("patterns find, and remove, what Python's re does") {
  const json golden = json::parse(read_file(testing::source_folder() / "tests/golden/eval/patterns.json", 1 << 20));
  for (const json& one : golden.at("patterns")) {
    const std::string pattern = one.at("pattern");
    CAPTURE(pattern);
    const PythonRegex regex(pattern, "pattern");
    for (size_t i = 0; i < golden.at("texts").size(); ++i) {
      const std::string text = golden.at("texts")[i];
      CAPTURE(text);
      CHECK(json(regex.find_all(text)) == one.at("found")[i]);
      CHECK(regex.removed(text) == one.at("removed")[i]);
    }
  }
}

TEST_CASE("what Python does not read is refused") {
  for (const char* pattern : {"a\\Kb", "\\h", "\\Qa\\E", "\\p{L}", "(*FAIL)", "(?R)", "(?|a)", "(?<n>a)", "(?P>n)", "(",
                              "[a", "a**", "\\", "\\u12", "(?1)", "(?Px)"}) {
    CAPTURE(std::string(pattern));
    CHECK_THROWS_AS(PythonRegex(pattern, "pattern"), InputError);
  }
}

TEST_CASE("a pattern that backtracks without end is an error") {
  const PythonRegex regex("(a|aa)+$", "pattern");
  CHECK_THROWS_AS((void)regex.find_all(std::string(200, 'a') + "b"), InputError);
}
