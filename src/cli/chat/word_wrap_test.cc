#include "cli/chat/word_wrap.h"

#include <doctest/doctest.h>

#include "base/utf8.h"

using namespace spillway;

namespace {

// Pushes the text in pieces of so many characters.
std::string wrapped(std::string_view text, int64_t columns, size_t characters) {
  WordWrap wrap(columns);
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    for (size_t i = 0; i < characters && at < text.size(); ++i) (void)next_code_point(text, at);
    result += wrap.push(text.substr(begin, at - begin));
  }
  return result + wrap.finish();
}

}  // namespace

TEST_CASE("lines end between words, however the pieces of a text are cut") {
  struct Wrapped {
    const char *text, *lines;
  };
  for (const Wrapped& one : std::initializer_list<Wrapped>{
           {"the quick brown fox", "the quick\nbrown fox"},
           {"1234567890 1", "1234567890\n1"},
           {"12345678 0 1", "12345678 0\n1"},
           {"a  b\n\n  - c \n", "a  b\n\n  - c \n"},
           {"12345678    90", "12345678\n90"},
           {"a\tb\tc", "a\tb\nc"},
           {"", ""},
           // A word that is longer than a line begins one, and what comes behind it goes on in its last line.
           {"at 1234567890123 b", "at\n1234567890123 b"},
           {"at 12345678901234567 bcd", "at\n12345678901234567\nbcd"},
           // Each of these characters takes two columns, and a line may end before any.
           {"\u65e5\u672c\u8a9e\u65e5\u672c\u8a9e ab", "\u65e5\u672c\u8a9e\u65e5\u672c\n\u8a9e ab"},
           {"123456789 \U0001F600", "123456789\n\U0001F600"},
           // An accent takes none.
           {"e\u0301te\u0301 et hiver", "e\u0301te\u0301 et\nhiver"},
           {"e\u0301te\u0301 et hive", "e\u0301te\u0301 et\nhive"}}) {
    CAPTURE(std::string(one.text));
    for (const size_t characters : {1, 2, 3, 7, 100}) {
      CAPTURE(characters);
      CHECK(wrapped(one.text, 10, characters) == one.lines);
    }
  }
  CHECK(wrapped("e\u0301te\u0301 et hiv", 10, 1) == "e\u0301te\u0301 et hiv");
}

TEST_CASE("a word is shown where the next one begins, or as soon as it is longer than a line") {
  WordWrap wrap(10);
  CHECK(wrap.push("on").empty());
  CHECK(wrap.push("e t") == "one");
  CHECK(wrap.push("wo\n") == " two\n");
  CHECK(wrap.push("1234567890").empty());
  CHECK(wrap.push("1") == "12345678901");
  CHECK(wrap.push("2") == "2");
  CHECK(wrap.finish().empty());
}
