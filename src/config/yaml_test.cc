#include "config/yaml.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace spillway;
using config::parse_yaml;
using config::YamlNode;

namespace {

std::string message_of(std::string_view text) {
  try {
    (void)parse_yaml(text, "c.yml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a config is read with a byte order mark, CRLF, comments and empty values") {
  const YamlNode root =
      parse_yaml("\xef\xbb\xbf# a\r\nbase_model: ./m  # here\r\nadapter:\r\nlist:\r\n  - 1\r\n  - 'x y'\r\n", "c.yml");
  REQUIRE(root.kind == YamlNode::Kind::kMap);
  CHECK(root.find("base_model")->text == "./m");
  CHECK(root.find("adapter")->is_null());
  CHECK(root.find("list")->items[0].text == "1");
  CHECK(root.find("list")->items[1].quoted);
  CHECK(root.entries[1].line == 3);
}

TEST_CASE("an empty text is null, and JSON is YAML") {
  CHECK(parse_yaml("", "c").is_null());
  CHECK(parse_yaml("# only a comment\n", "c").is_null());
  CHECK(parse_yaml(R"({"a": [1, {"b": "no"}]})", "c").find("a")->items[1].find("b")->quoted);
}

TEST_CASE("aliases and merge keys unfold, and the map's own key wins") {
  const YamlNode root = parse_yaml("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  x: 3\ncopy: *b\n", "c");
  CHECK(root.find("use")->find("x")->text == "3");
  CHECK(root.find("use")->find("y")->text == "2");
  CHECK(*root.find("copy") == *root.find("base"));
}

TEST_CASE("each thing that YAML can get wrong has its line and its message") {
  CHECK(message_of("a: 1\nb: 2\na: 3\n") ==
        "[c.yml:3] expected every key once, got 'a' again (first on line 1); remove one of them");
  CHECK(message_of("a: 1\n---\nb: 2\n") ==
        "[c.yml:2] expected one YAML document, got a second one; remove the '---' line and what follows it");
  CHECK(message_of("a: [1, 2\n").starts_with("[c.yml:2] expected YAML, got an error ("));
  CHECK(message_of("a: 1\nb: \xff\n") == "[c.yml:2] expected UTF-8, got byte 0xff; save the file as UTF-8");
  CHECK(message_of("a: 1\nb: \x04\n") == "[c.yml:2] expected text, got control byte 0x04; remove it");
  CHECK(message_of("[1, 2]: 3\n") == "[c.yml:1] expected a name before ':', got a list of 2; write `key: value`");
  CHECK(message_of("\"a\\nb\": 3\n") ==
        "[c.yml:1] expected a name of at most 256 printable bytes before ':', got 'a\\nb'; write `key: value`");
  CHECK(message_of(std::string(257, 'a') + ": 3\n").starts_with("[c.yml:1] expected a name of at most 256"));
  CHECK(message_of("a: !!python/name:os.system x\n").starts_with("[c.yml:1] expected plain values, got the tag"));
  CHECK(message_of("a: !custom x\n") == "[c.yml:1] expected plain values, got the tag '!custom'; remove the tag");
  CHECK(message_of("a: &x [*x]\n") ==
        "[c.yml:1] expected an alias of a finished value, got one inside itself; write the value out");
  CHECK(message_of("a:\n  <<: 3\n") == "[c.yml:2] expected a mapping after '<<:', got '3'; name a mapping");
  CHECK(message_of(std::string(2 << 20, 'a')) ==
        "[c.yml] expected at most 1.0 MiB of YAML, got 2.0 MiB; give a config file");
}

TEST_CASE("a text that ends inside a quote is refused where the quote begins, whatever stands behind it") {
  constexpr const char* kError =
      "[c.yml:2] expected a closing quote for the text that begins here, got the end; close it";
  for (const char* quote : {"\"", "'"}) {
    for (const char* before : {"a: 1\nb: ", "a: 1\nb: [1, ", "a: 1\nb: &x ", "a: 1\nb: !!str "}) {
      for (const char* end : {"", "\n", "\r\n", "\n\n", " \n\t", "\n# no comment\n", "\nc: 2\n"}) {
        const std::string text = std::string(before) + quote + "x" + end;
        CAPTURE(text);
        const bool is_in_brackets = text.find('[') != std::string::npos;
        if (is_in_brackets && text.back() != 'x') {
          CHECK(message_of(text).starts_with("[c.yml:"));
        } else {
          CHECK(message_of(text) == kError);
        }
      }
    }
  }
  CHECK(message_of("a: 1\nb: \"x\\\n") == kError);  // the line break is escaped
  // Quotes that are closed, or are none.
  for (const char* text : {"b: \"x\"\n", "b: 'it''s'\n\n", "b: \"a\\\"b\"", "b: it's\n", "b: |\n  \"x\n",
                           "b: 'x\n  y'\n", "b: 1  # \"x\n"}) {
    CAPTURE(std::string(text));
    CHECK(message_of(text) == "");
  }
  CHECK(parse_yaml("b: |\n  x\n", "c").find("b")->text == "x\n");
  CHECK(parse_yaml("b: |+\n  x\n\n", "c").find("b")->text == "x\n\n");
}

TEST_CASE("deep nesting and alias bombs end in an error, quickly") {
  CHECK(message_of("a: " + std::string(10000, '[')) ==
        "[c.yml:1] expected at most 64 levels of nesting, got a deeper one; write a flatter config");
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    const std::string name = std::to_string(i);
    bomb.append("a").append(name).append(": &a").append(name).append(" [");
    for (int j = 0; j < 10; ++j) bomb += (j > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  CHECK(message_of(bomb).find("expected") != std::string::npos);
}
