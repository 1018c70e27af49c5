// Breaks a text that arrives in pieces between words, so that a terminal does not break it within them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

// Wraps one text that begins at the left edge. A character takes one column, of the East Asian scripts or an emoji two,
// and a mark that combines with the character before it none. For one thread at a time.
class WordWrap {
 public:
  // Lines take at most `columns` columns, but for words that are longer than a line: these stay in one piece, and the
  // terminal breaks them. REQUIRES: columns > 0.
  explicit WordWrap(int64_t columns) : columns_(columns) {}

  // Returns what can be shown now: everything up to the last word of the pieces so far. That word is held back, since
  // the next piece may go on with it, until it is longer than a line. A line break takes the place of the spaces before
  // the word that did not fit. REQUIRES: valid UTF-8, a piece is whole characters, without control characters but line
  // breaks and tabs.
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
