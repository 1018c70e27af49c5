// YAML text as a tree of plain values: the one file that knows the YAML library.
//
// A scalar keeps its text; what it means (a number, yes, a path) is decided by the key that reads it, so `2e-4` is a
// number where a number is expected and `no` stays a word where a word is. JSON is read too, being YAML.
//
// Bounded: texts over 1 MiB, nesting over 64, aliases that unfold to more than 100,000 values, and anything but one
// document are errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::config {

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Entry;

  Kind kind = Kind::kNull;
  std::string text;             // of a scalar
  bool quoted = false;          // written in quotes or as a block: text, whatever it looks like
  std::vector<YamlNode> items;  // of a list
  std::vector<Entry> entries;   // of a map, in the order of the file, keys unique

  [[nodiscard]] bool is_null() const { return kind == Kind::kNull; }
  // The value of a map's key; null where there is none.
  [[nodiscard]] const YamlNode* find(std::string_view key) const;
  [[nodiscard]] YamlNode* find(std::string_view key);
  // Returns it as messages show it: 'text', nothing, a list or a mapping.
  [[nodiscard]] std::string shown() const;

  [[nodiscard]] static YamlNode scalar(std::string text, bool quoted = false);
  friend bool operator==(const YamlNode& a, const YamlNode& b);
};

struct YamlNode::Entry {
  std::string key;
  int line = 0;  // 1-based, where the key stands; 0 where it comes from the command line
  YamlNode value;
};

// The one document of `text`; kNull where it is empty. `name` is the file's, for messages: `[c.yml:3] expected ...`.
// Throws InputError.
[[nodiscard]] YamlNode parse_yaml(std::string_view text, std::string_view name);

// A text that parses as `node`: maps and lists of maps as blocks, other lists in a line.
[[nodiscard]] std::string print_yaml(const YamlNode& node);

}  // namespace spillway::config
