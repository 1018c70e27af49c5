// Against lm-evaluation-harness: tests/golden/eval/rules.json (tools/make_eval_goldens.py).
#include "infer/evaluation/exact_match.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::infer;
using nlohmann::json;

TEST_CASE("answers are right where exact_match of lm-evaluation-harness is 1, behind its filters") {
  const json golden = json::parse(read_file(testing::source_folder() / "tests/golden/eval/rules.json", 1 << 20));
  REQUIRE(golden.size() > 10);
  for (const json& one : golden) {
    const std::string answer = one.at("answer");
    CAPTURE(answer);
    const json& said = one.at("rules");
    ExactRules rules{.match = said.value("match", int64_t{0}),
                     .fallback = said.value("fallback", "[invalid]"),
                     .strips = said.value("strip", false),
                     .ignores_case = said.value("ignore_case", false),
                     .ignores_punctuation = said.value("ignore_punctuation", false),
                     .ignores_numbers = said.value("ignore_numbers", false)};
    if (said.contains("extract")) rules.extract.emplace(said.at("extract").get<std::string>(), "extract");
    for (const json& pattern : said.value("regexes_to_ignore", json::array()))
      rules.ignored.emplace_back(pattern.get<std::string>(), "ignored");
    CHECK(extracted(rules, answer) == one.at("extracted"));
    CHECK(matches_one(rules, extracted(rules, answer), one.at("targets").get<std::vector<std::string>>()) ==
          one.at("exact").get<bool>());
  }
}

TEST_CASE("answers are cut by one stop string after the other") {
  const std::vector<std::string> stops = {"Y", "XYb"};
  CHECK(cut_at_stops("aXYbc", stops) == "aX");
  CHECK(cut_at_stops("abc", stops) == "abc");
}
