// The text of an answer as it grows, up to the first stop string.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace spillway::serve {

// Not thread-safe: belongs to one thread.
class AnswerText {
 public:
  // Borrows the tokenizer. Special tokens have no text unless `skips_special_tokens` is false, or they are in `shown`.
  // REQUIRES: no stop string is empty.
  AnswerText(const text::Tokenizer& tokenizer, std::vector<std::string> stops, bool skips_special_tokens = true,
             std::vector<int32_t> shown = {})
      : tokenizer_(&tokenizer),
        decoder_(tokenizer, skips_special_tokens),
        stops_(std::move(stops)),
        shown_(std::move(shown)) {}

  // Returns the text that is certain with this token: whole characters, and nothing that may be the beginning of a stop
  // string.
  [[nodiscard]] std::string push(int32_t id);
  // Returns the text that was held back. The answer has ended.
  [[nodiscard]] std::string finish();
  // Returns true if a stop string has come. It and what follows are not part of the text.
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  [[nodiscard]] std::string add(const std::string& text);

  const text::Tokenizer* tokenizer_;
  text::Tokenizer::StreamDecoder decoder_;
  std::vector<std::string> stops_;
  std::vector<int32_t> shown_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace spillway::serve
