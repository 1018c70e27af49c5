// WordPiece, as in BERT: the longest token that starts a word, then the longest continuation, and so on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_field.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/tokenizer_file.h"
#include "text/tokenizer/vocabulary.h"

namespace spillway::text {

// Immutable; any thread may encode.
class WordPiece {
 public:
  // Takes the vocabulary out of `file`; throws whatever Vocabulary throws.
  WordPiece(const JsonField& model, TokenizerFile& file);

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of `word`, or the unknown token's if it is too long or cannot be written. Throws InputError if that
  // is needed and model.unk_token is not in the vocabulary.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  // Returns false if no token fits somewhere; ids appended until then stay.
  bool append_pieces(std::string_view word, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  ByteTrie tokens_;
  std::string where_, unknown_token_, prefix_;
  size_t longest_word_;  // characters
};

}  // namespace spillway::text
