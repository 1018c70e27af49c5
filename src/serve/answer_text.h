// The text of an answer as it grows, up to the first of the strings that end it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace spillway::serve {

// Belongs to one thread.
class AnswerText {
 public:
  // Borrows the tokenizer. Special tokens have no text unless they are to be seen. REQUIRES: no stop string is empty.
  AnswerText(const text::Tokenizer& tokenizer, std::vector<std::string> stops, bool skips_special_tokens = true)
      : decoder_(tokenizer, skips_special_tokens), stops_(std::move(stops)) {}

  // The text that is certain with this token: whole characters, and nothing that may be the beginning of a stop string.
  [[nodiscard]] std::string push(int32_t id) { return add(decoder_.push(id)); }
  // What is left at the end.
  [[nodiscard]] std::string finish();
  // A stop string has come; it and what follows are no part of the text.
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  [[nodiscard]] std::string add(const std::string& text);

  text::Tokenizer::StreamDecoder decoder_;
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace spillway::serve
