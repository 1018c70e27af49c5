#include "text/tokenizer/regex.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"

using namespace spillway;
using text::Regex;
using text::RegexScratch;

namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const Regex regex(pattern, "pattern");
  RegexScratch scratch;
  std::vector<std::string> result;
  regex.find_all(text, scratch,
                 [&](size_t begin, size_t end) { result.emplace_back(text.substr(begin, end - begin)); });
  return result;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("patterns have the meaning of Oniguruma's Ruby dialect") {
  CHECK(matches(R"(\s+$)", "a  \nb  ") == Strings{"  ", "  "});
  CHECK(matches(R"(^b)", "b\nb b") == Strings{"b", "b"});
  CHECK(matches(R"(a{1,2}+)", "aaaaa") == Strings{"aaaaa"});
  CHECK(matches(R"(a{2}?b)", "b aab") == Strings{"b", "aab"});
  CHECK(matches(R"((?i:'s))", "'s'S'\xC5\xBF") == Strings{"'s", "'S", "'\xC5\xBF"});
  CHECK(matches(R"([a-z&&[^b]]+)", "abc") == Strings{"a", "c"});
  CHECK(matches(R"(\h+)", "xAf9") == Strings{"Af9"});
  CHECK(matches(R"(x*)", "baac") == Strings{"", "", "", "", ""});
  CHECK(matches(R"([\p{Lu}\p{^L}]+)", "aB1c") == Strings{"B1"});
  CHECK(matches("[\xE4\xB8\x80-\xE9\xBE\xA5]+|\\p{Han}", "a\xE6\xBC\xA2\xE5\xAD\x97") ==
        Strings{"\xE6\xBC\xA2\xE5\xAD\x97"});
  CHECK(matches(R"(.)", "\r\n\xC2\x85") == Strings{"\r", "\xC2\x85"});
  CHECK(matches(R"(\bb\B.)", "ab bc") == Strings{"bc"});
}

TEST_CASE("a pattern that cannot be read is refused with its place") {
  for (const char* pattern :
       {"(", ")", "[", "[a", "a{2,1}", "*a", "\\p{Nope}", "\\p", "(?<n>a)", "\\1", "[[:alpha:]]", "[b-a]",
        "\\x{110000}", "(?m:a)", "(?i:\xC3\xA9)", "a{1001}", "\\", "(?<=a+)b", "a|(?i)b"}) {
    CAPTURE(pattern);
    CHECK_THROWS_AS(Regex(pattern, "here"), InputError);
  }
  CHECK_THROWS_AS(Regex(std::string(101, '('), "here"), InputError);
  CHECK_THROWS_AS(Regex(std::string(30'000, 'a'), "here"), InputError);
}

TEST_CASE("a pattern that backtracks without end is an error in bounded time") {
  const Regex regex(R"((?:a|aa|aaa)+$)", "here");
  RegexScratch scratch;
  const std::string text = std::string(200, 'a') + "b";
  CHECK_THROWS_AS(regex.find_all(text, scratch, [](size_t, size_t) {}), InputError);
}
