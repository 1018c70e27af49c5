// The plainest model: a word is a token of the vocabulary, or unknown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_field.h"
#include "text/tokenizer/tokenizer_file.h"
#include "text/tokenizer/vocabulary.h"

namespace spillway::text {

class WordLevel {
 public:
  // Takes the vocabulary out of `file`; throws whatever Vocabulary throws.
  WordLevel(const JsonField& model, TokenizerFile& file);

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the id of `word`. Throws InputError for an unknown word if model.unk_token is not in the vocabulary.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  Vocabulary vocabulary_;
  std::string where_, unknown_token_;
};

}  // namespace spillway::text
