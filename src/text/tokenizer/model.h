// The model of a tokenizer: converts words to ids. A new kind is one more file and one more alternative here.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json_field.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/tokenizer_file.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocabulary.h"
#include "text/tokenizer/word_level.h"
#include "text/tokenizer/word_piece.h"

namespace spillway::text {

struct ModelScratch {
  BpeScratch bpe;
  UnigramScratch unigram;
};

// Immutable; any thread may encode with a scratch of its own.
class Model {
 public:
  // Throws InputError for kinds other than BPE, Unigram, WordPiece and WordLevel.
  Model(const JsonField& model, TokenizerFile& file) : kind_(read(model, file)) {}

  [[nodiscard]] const Vocabulary& vocabulary() const {
    return std::visit([](const auto& kind) -> const Vocabulary& { return kind.vocabulary(); }, kind_);
  }
  void encode(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& ids) const {
    if (const auto* bpe = std::get_if<Bpe>(&kind_)) return bpe->encode(word, scratch.bpe, ids);
    if (const auto* unigram = std::get_if<Unigram>(&kind_)) return unigram->encode(word, scratch.unigram, ids);
    if (const auto* word_piece = std::get_if<WordPiece>(&kind_)) return word_piece->encode(word, ids);
    std::get<WordLevel>(kind_).encode(word, ids);
  }

 private:
  using Kind = std::variant<Bpe, Unigram, WordPiece, WordLevel>;
  static Kind read(const JsonField& model, TokenizerFile& file);

  Kind kind_;
};

}  // namespace spillway::text
