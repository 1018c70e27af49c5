// Unigram: writes a word in the pieces whose scores have the largest sum.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_field.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/tokenizer_file.h"
#include "text/tokenizer/vocabulary.h"

namespace spillway::text {

// Memory that is reused between words, for one thread at a time.
class UnigramScratch {
 private:
  friend class Unigram;
  // For the best way to write the word up to each byte: where its last piece starts (kNone: no piece ends here), then,
  // along the best way, where the next one ends.
  std::vector<int32_t> links_;
  std::vector<double> sums_;  // of these ways, up to as far as a piece reaches; a ring
};

// Immutable; any thread may encode with a scratch of its own.
class Unigram {
 public:
  // Takes the pieces out of `file`. Throws InputError for an unk_id that no piece has, and whatever Vocabulary throws.
  Unigram(const JsonField& model, TokenizerFile& file);

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of `word`. Throws InputError for a character that no piece has if there is no unk_id, and for a
  // word of more than 64 MiB.
  void encode(std::string_view word, UnigramScratch& scratch, std::vector<int32_t>& ids) const;

 private:
  void find_best(std::string_view word, UnigramScratch& scratch) const;
  [[nodiscard]] int32_t id_of(std::string_view piece) const;
  void append_unknown(std::string_view text, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;  // by id
  ByteTrie pieces_;
  size_t reach_ = 0;  // more than the bytes of the longest piece; a power of two
  double unknown_score_ = 0;
  int32_t unknown_id_ = -1;
  bool byte_fallback_ = false;
  std::array<int32_t, 256> byte_ids_{};  // of <0x00> to <0xFF>; -1 where there is none
  std::string where_;
};

}  // namespace spillway::text
