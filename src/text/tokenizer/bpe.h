// Byte-pair encoding of one word (Sennrich et al., ACL 2016), with the options of the `tokenizers` library: byte
// fallback, fused unknowns, whole words first, subword prefix and suffix.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_field.h"
#include "text/tokenizer/tokenizer_file.h"
#include "text/tokenizer/vocabulary.h"

namespace spillway::text {

// Memory that is reused between words, for one thread at a time.
class BpeScratch {
 public:
  BpeScratch() : cache_(kCacheSlots) {}

 private:
  friend class Bpe;
  static constexpr size_t kCacheSlots = 4096, kCachedBytes = 30, kCachedIds = 8;
  // The result of a short word, found by its hash; a newer word takes the place of an older one.
  struct CachedWord {
    std::array<char, kCachedBytes> text;
    uint8_t size = 0, count = 0;
    std::array<int32_t, kCachedIds> ids;
  };

  std::vector<int32_t> ids_;
  std::vector<uint64_t> pairs_;
  std::vector<CachedWord> cache_;
};

class Bpe {
 public:
  // Takes vocabulary and merges out of `file`. Throws InputError for a merge whose tokens are not in the vocabulary,
  // for dropout, and whatever Vocabulary throws.
  Bpe(const JsonField& model, TokenizerFile& file);

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of `word`. Throws InputError if a character is unknown and model.unk_token is not in the
  // vocabulary; without unk_token such characters vanish.
  void encode(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const;

 private:
  struct Merge {
    uint64_t pair = kNoPair;  // left id << 32 | right id
    int32_t rank = 0, id = 0;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};

  void read_merges(const TokenizerFile& file, const std::string& where);
  [[nodiscard]] bool can_cut_before_space() const;
  [[nodiscard]] const Merge* find_merge(int32_t left, int32_t right) const;
  void encode_part(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const;
  void split_into_characters(std::string_view word, std::vector<int32_t>& ids) const;
  [[nodiscard]] std::optional<int32_t> character_id(std::string_view word, size_t begin, size_t end,
                                                    std::string& buffer) const;
  void merge_short(BpeScratch& scratch) const;
  class LongWord;

  Vocabulary vocabulary_;
  std::vector<Merge> merges_;                  // open addressing, a power of two, at most half full
  std::array<int32_t, 0x800> two_byte_ids_{};  // of the characters below U+0800; -1 where there is none
  std::array<int32_t, 256> byte_ids_{};        // of <0x00> to <0xFF>; -1 where there is none
  std::string where_;
  std::optional<std::string> unknown_token_;
  std::string prefix_, suffix_;
  bool fuse_unknown_ = false, byte_fallback_ = false, whole_words_first_ = false, cut_before_space_ = false;
};

}  // namespace spillway::text
