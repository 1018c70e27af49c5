#include "serve/answer_text.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "tests/support/chat_model.h"

using namespace spillway;
using namespace spillway::serve;

namespace {

// A tokenizer of bytes.
text::Tokenizer byte_tokenizer() {
  const TemporaryFolder folder;
  testing::write_chat_tokenizer(folder.path());
  return text::Tokenizer::load(folder.path());
}

struct Outcome {
  std::string text;
  bool stopped;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome outcome(const text::Tokenizer& tokenizer, const std::string& said, const std::vector<std::string>& stops) {
  AnswerText answer(tokenizer, stops);
  std::string text;
  for (const char c : said) {
    text += answer.push(static_cast<unsigned char>(c));
    if (answer.stopped()) break;
  }
  text += answer.finish();
  return {text, answer.stopped()};
}

}  // namespace

TEST_CASE("an answer ends before the first stop string, however it is cut into tokens") {
  const text::Tokenizer tokenizer = byte_tokenizer();
  CHECK(outcome(tokenizer, "one two", {}) == Outcome{"one two", false});
  CHECK(outcome(tokenizer, "one two three", {"two", "three"}) == Outcome{"one ", true});
  CHECK(outcome(tokenizer, "aab", {"ab"}) == Outcome{"a", true});
  CHECK(outcome(tokenizer, "aabaabaac", {"aabaac"}) == Outcome{"aab", true});
  CHECK(outcome(tokenizer, "one tw", {"two"}) == Outcome{"one tw", false});  // it might have become one
  CHECK(outcome(tokenizer, "x\xC3\xA9y", {"\xC3\xA9"}) == Outcome{"x", true});
  CHECK(outcome(tokenizer, "x\xC3", {"y"}) == Outcome{"x\xEF\xBF\xBD", false});
}

TEST_CASE("text that cannot become a stop string is not held back, nor is half a character shown") {
  const text::Tokenizer tokenizer = byte_tokenizer();
  AnswerText answer(tokenizer, {"stop"});
  CHECK(answer.push('a') == "a");
  CHECK(answer.push('s').empty());
  CHECK(answer.push('t').empty());
  CHECK(answer.push('x') == "stx");
  CHECK(answer.push(0xC3).empty());
  CHECK(answer.push(0xA9) == "\xC3\xA9");
}
