#include "base/text.h"

#include <doctest/doctest.h>

#include <array>

#include "base/utf8.h"

using namespace spillway;

TEST_CASE("the nearest name is the one with the fewest edits") {
  const std::array<std::string_view, 4> names = {"learning_rate", "lr_scheduler", "lora_r", "lora_alpha"};
  CHECK(nearest_name("lora_rr", names) == "lora_r");
  CHECK(nearest_name("learnign_rate", names) == "learning_rate");
  CHECK(nearest_name("completely_else", names).empty());
  CHECK(nearest_name("4", std::vector<std::string_view>{"0", "1"}).empty());
  CHECK(edit_distance("ab", "ba") == 1);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance(std::string(1000, 'x'), std::string(1000, 'y')) == 64);
}

TEST_CASE("a quoted text stays on one line and is bounded") {
  CHECK(quote("a b") == "'a b'");
  CHECK(quote("a\nb\x01") == "'a\\nb\\x01'");
  CHECK(quote(std::string(10000, 'a')).size() < 100);
  CHECK(quote("a\xff\xe2\x99") == "'a\\xff\\xe2\\x99'");
  std::string hearts;
  for (int i = 0; i < 100; ++i) hearts += "\xe2\x99\xa5";
  CHECK(first_invalid_utf8(quote(hearts)) == -1);
}

TEST_CASE("what a terminal would obey is shown and not obeyed") {
  CHECK(shown_line("a\x1b[2Jb\r\nc\td\x7f") == "a\\x1b[2Jb\\x0d\\nc\\x09d\\x7f");
  CHECK(shown_text("a\n\tb\x1b]0;title\a") == "a\n\tb\\x1b]0;title\\x07");
  CHECK(shown_line("\xc2\x9b"
                   "2J") == "\\u009b2J");                                             // CSI in one character
  CHECK(shown_line("a\xe2\x80\xaetxt.exe\xe2\x81\xa9") == "a\\u202etxt.exe\\u2069");  // reorders what follows
  CHECK(shown_line("\xe2\x80\xa8\xd8\x9c") == "\\u2028\\u061c");
  CHECK(shown_line("caf\xc3\xa9 \xe2\x80\x93 \xc2\xa0 \xf0\x9f\x98\x80") ==
        "caf\xc3\xa9 \xe2\x80\x93 \xc2\xa0 \xf0\x9f\x98\x80");
  CHECK(shown_line("\x9b\xff") == "\\x9b\\xff");
}

TEST_CASE("names are joined as in a sentence") {
  const std::array<std::string_view, 3> names = {"a", "b", "c"};
  CHECK(joined_names(names) == "a, b or c");
}

TEST_CASE("invalid UTF-8 is found where it starts") {
  CHECK(first_invalid_utf8("h\xc3\xa9llo \xf0\x9f\x98\x80") == -1);
  CHECK(first_invalid_utf8("ab\xff") == 2);
  CHECK(first_invalid_utf8("a\xc3") == 1);
  CHECK(first_invalid_utf8("\xc0\xaf") == 0);
  CHECK(first_invalid_utf8("x\xed\xa0\x80") == 1);
  CHECK(first_invalid_utf8("\xf4\x90\x80\x80") == 0);
  CHECK(first_invalid_utf8("\xe0\x80\x80") == 0);
}

TEST_CASE("blanks around a text go, and those within it stay") {
  CHECK(trimmed(" \t a b\r\n") == "a b");
  CHECK(trimmed("a") == "a");
  CHECK(trimmed(" \n").empty());
  CHECK(trimmed("").empty());
}
