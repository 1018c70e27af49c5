// Breaks a text that arrives in pieces between words, so that a terminal does not break it within words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

// Wraps one text that begins at the left edge. A character takes one column; one of the East Asian scripts or an emoji
// takes two, and a combining mark none. Not thread-safe.
class WordWrap {
 public:
  // Lines take at most `columns` columns, except for words that are longer than a line: these stay in one piece, and
  // the terminal breaks them. REQUIRES: columns > 0.
  explicit WordWrap(int64_t columns) : columns_(columns) {}

  // Returns the text that can be shown now: everything up to the last word of the pieces so far. That word is held back
  // until it is longer than a line, since the next piece may continue it. A line break replaces the spaces before a
  // word that does not fit. REQUIRES: a piece is whole characters in valid UTF-8, without control characters except
  // line breaks and tabs.
  [[nodiscard]] std::string push(std::string_view piece);
  // Returns the word that was held back. The text has ended.
  [[nodiscard]] std::string finish();

 private:
  void add(std::string_view character, char32_t code_point);
  void show_spaces();
  void show_word();

  int64_t columns_;
  int64_t column_ = 0;  // behind what has been shown
  int64_t space_columns_ = 0, word_columns_ = 0;
  std::string spaces_, word_;    // what is held back: the spaces come before the word
  bool is_inside_word_ = false;  // what has been shown ends in a part of a word that is longer than a line
  std::string shown_;            // by the present call
};

}  // namespace spillway
