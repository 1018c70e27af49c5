#include "text/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/text.h"
#include "base/utf8.h"
#include "text/tokenizer/byte_fallback.h"

namespace spillway::text {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, SentencePiece's space
constexpr size_t kShortWord = 24;                    // symbols; below this a scan beats a heap
constexpr size_t kReservedWord = 4096;               // bytes; ids of longer ones do not grow by doubling
constexpr uint64_t kNoRank = ~uint64_t{0};

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

size_t hash_of(uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15u;
  return pair ^ pair >> 32;
}

}  // namespace

Bpe::Bpe(const JsonField& model, TokenizerFile& file) : where_(model.where()) {
  if (!file.has_vocab) throw model["vocab"].bad("an object of tokens and ids", "correct the file");
  if (!file.has_merges) throw model["merges"].bad("a list of merges", "compare with the published file");
  const JsonField dropout = model["dropout"];
  if (!dropout.is_null() && dropout.number() != 0) throw dropout.bad("no dropout", "set it to null");
  vocabulary_ = Vocabulary(file.vocab, model["vocab"].where());
  if (!model["unk_token"].is_null()) unknown_token_ = model["unk_token"].string();
  prefix_ = model["continuing_subword_prefix"].string_or("");
  suffix_ = model["end_of_word_suffix"].string_or("");
  fuse_unknown_ = model["fuse_unk"].boolean_or(false);
  byte_fallback_ = model["byte_fallback"].boolean_or(false);
  whole_words_first_ = model["ignore_merges"].boolean_or(false);
  read_merges(file, model["merges"].where());

  for (char32_t c = 0; c < two_byte_ids_.size(); ++c) {
    std::string text;
    append_utf8(text, c);
    two_byte_ids_[c] = vocabulary_.find(text).value_or(-1);
  }
  byte_ids_ = byte_token_ids(vocabulary_);
  cut_before_space_ = can_cut_before_space();
}

void Bpe::read_merges(const TokenizerFile& file, const std::string& where) {
  merges_.resize(std::bit_ceil(file.merges.size() * 2 + 2));
  const size_t mask = merges_.size() - 1;
  std::string joined;
  const auto id_of = [&](std::string_view token, size_t index) {
    const std::optional<int32_t> id = vocabulary_.find(token);
    if (!id) {
      throw input_error(fmt::format("{}[{}]", where, index),
                        "expected tokens of the vocabulary, got {}, which is not "
                        "in model.vocab; compare with the published file",
                        quote(token));
    }
    return *id;
  };
  for (size_t i = 0; i < file.merges.size(); ++i) {
    const auto& [left, right] = file.merges[i];
    const uint64_t pair = pair_of(id_of(left, i), id_of(right, i));
    joined = left;
    joined += std::string_view(right).substr(std::min(prefix_.size(), right.size()));
    const int32_t merged = id_of(joined, i);
    size_t slot = hash_of(pair) & mask;
    while (merges_[slot].pair != kNoPair && merges_[slot].pair != pair) slot = (slot + 1) & mask;
    merges_[slot] = {pair, static_cast<int32_t>(i), merged};  // of a pair that appears twice the later rank counts
  }
}

// Returns true if no token has SentencePiece's space behind another character: then no merge reaches across such a
// place, and a long text may be cut there into words without changing a single id.
bool Bpe::can_cut_before_space() const {
  if (!prefix_.empty() || !suffix_.empty() || whole_words_first_ || !vocabulary_.find(kSpace)) return false;
  for (int64_t id = 0; id < vocabulary_.id_limit(); ++id) {
    const std::string_view token = vocabulary_.token(id).value_or("");
    size_t at = 0;
    while (token.substr(at).starts_with(kSpace)) at += kSpace.size();
    if (token.find(kSpace, at) != std::string_view::npos) return false;
  }
  return true;
}

const Bpe::Merge* Bpe::find_merge(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = merges_.size() - 1;
  for (size_t slot = hash_of(pair) & mask;; slot = (slot + 1) & mask) {
    if (merges_[slot].pair == pair) return &merges_[slot];
    if (merges_[slot].pair == kNoPair) return nullptr;
  }
}

void Bpe::encode(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  if (whole_words_first_) {
    if (const std::optional<int32_t> id = vocabulary_.find(word)) return ids.push_back(*id);
  }
  if (!cut_before_space_) return encode_part(word, scratch, ids);
  size_t begin = 0, at = 0;
  while (word.substr(at).starts_with(kSpace)) at += kSpace.size();
  while ((at = word.find(kSpace, at)) != std::string_view::npos) {
    encode_part(word.substr(begin, at - begin), scratch, ids);
    begin = at;
    while (word.substr(at).starts_with(kSpace)) at += kSpace.size();
  }
  encode_part(word.substr(begin), scratch, ids);
}

// Merges in place, in 6 bytes per character: a word may be a whole file. A symbol is a run of cells, one for each of
// its characters: its id first, then negative ones; the second and the last say its length. The pair of lowest rank is
// found by a tree of minima over small blocks of cells, as rank << 32 | position.
class Bpe::LongWord {
 public:
  LongWord(const Bpe& bpe, BpeScratch& scratch) : bpe_(bpe), cells_(scratch.ids_), minima_(scratch.pairs_) {
    blocks_ = (cells_.size() + kBlockCells - 1) / kBlockCells;
    minima_.assign(2 * blocks_, kNoRank);
    for (size_t block = 0; block < blocks_; ++block) minima_[blocks_ + block] = minimum_of(block);
    for (size_t node = blocks_ - 1; node > 0; --node)
      minima_[node] = std::min(minima_[2 * node], minima_[2 * node + 1]);
  }

  // Runs all merges and leaves the ids in the cells.
  void merge() {
    while (minima_[1] != kNoRank) merge_at(static_cast<uint32_t>(minima_[1]));
    size_t count = 0;
    for (size_t at = 0; at < cells_.size();) {
      const size_t next = next_of(at);
      cells_[count++] = cells_[at];
      at = next;
    }
    cells_.resize(count);
  }

 private:
  static constexpr size_t kBlockCells = 8;

  [[nodiscard]] size_t next_of(size_t at) const {
    const bool is_longer = at + 1 < cells_.size() && cells_[at + 1] < 0;
    return at + (is_longer ? static_cast<size_t>(-cells_[at + 1]) : 1);
  }
  [[nodiscard]] size_t previous_of(size_t at) const {
    return cells_[at - 1] < 0 ? at - static_cast<size_t>(-cells_[at - 1]) : at - 1;
  }

  [[nodiscard]] uint64_t minimum_of(size_t block) const {
    uint64_t minimum = kNoRank;
    const size_t end = std::min((block + 1) * kBlockCells, cells_.size());
    for (size_t at = block * kBlockCells; at < end; ++at) {
      if (cells_[at] < 0) continue;
      const size_t next = next_of(at);
      if (next == cells_.size()) break;
      if (const Merge* merge = bpe_.find_merge(cells_[at], cells_[next]))
        minimum = std::min(minimum, pair_of(merge->rank, static_cast<int32_t>(at)));
    }
    return minimum;
  }
  void update(size_t block) {
    size_t node = blocks_ + block;
    minima_[node] = minimum_of(block);
    for (node /= 2; node > 0; node /= 2) minima_[node] = std::min(minima_[2 * node], minima_[2 * node + 1]);
  }

  void merge_at(size_t at) {
    const size_t right = next_of(at), end = next_of(right);
    cells_[at] = bpe_.find_merge(cells_[at], cells_[right])->id;
    cells_[right] = -1;
    cells_[at + 1] = cells_[end - 1] = -static_cast<int32_t>(end - at);
    const size_t block = at / kBlockCells;
    update(block);
    if (right / kBlockCells != block) update(right / kBlockCells);
    if (at == 0) return;
    if (const size_t before = previous_of(at) / kBlockCells; before != block) update(before);
  }

  const Bpe& bpe_;
  std::vector<int32_t>& cells_;
  std::vector<uint64_t>& minima_;  // a leaf for each block from blocks_ on; the lowest of all at 1
  size_t blocks_ = 0;
};

void Bpe::encode_part(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  BpeScratch::CachedWord* cached = nullptr;
  if (word.size() <= BpeScratch::kCachedBytes) {
    cached = &scratch.cache_[std::hash<std::string_view>()(word) % BpeScratch::kCacheSlots];
    if (std::string_view(cached->text.data(), cached->size) == word) {
      ids.insert(ids.end(), cached->ids.begin(), cached->ids.begin() + cached->count);
      return;
    }
  }
  scratch.ids_.clear();
  if (word.size() > kReservedWord) scratch.ids_.reserve(count_characters(word));
  split_into_characters(word, scratch.ids_);
  if (scratch.ids_.size() <= kShortWord)
    merge_short(scratch);
  else
    LongWord(*this, scratch).merge();
  ids.insert(ids.end(), scratch.ids_.begin(), scratch.ids_.end());
  if (cached != nullptr && scratch.ids_.size() <= BpeScratch::kCachedIds) {
    std::copy(word.begin(), word.end(), cached->text.begin());
    std::copy(scratch.ids_.begin(), scratch.ids_.end(), cached->ids.begin());
    cached->size = static_cast<uint8_t>(word.size());
    cached->count = static_cast<uint8_t>(scratch.ids_.size());
  }
}

std::optional<int32_t> Bpe::character_id(std::string_view word, size_t begin, size_t end, std::string& buffer) const {
  const bool prefixed = begin > 0 && !prefix_.empty(), suffixed = end == word.size() && !suffix_.empty();
  if (!prefixed && !suffixed) {
    if (end - begin > 2) return vocabulary_.find(word.substr(begin, end - begin));
    const int32_t id = two_byte_ids_[next_code_point(word, begin)];
    if (id < 0) return std::nullopt;
    return id;
  }
  buffer.clear();
  if (prefixed) buffer += prefix_;
  buffer += word.substr(begin, end - begin);
  if (suffixed) buffer += suffix_;
  return vocabulary_.find(buffer);
}

// Splits a word. An unknown character waits until the next known one (the library's order, which byte fallback does not
// end).
void Bpe::split_into_characters(std::string_view word, std::vector<int32_t>& ids) const {
  std::string buffer;
  bool unknown_waits = false;
  const auto push_unknown = [&] { ids.push_back(vocabulary_.unknown_id(*unknown_token_, word, where_)); };
  for (size_t begin = 0, end = 0; begin < word.size(); begin = end) {
    end = begin + utf8_length(static_cast<unsigned char>(word[begin]));
    if (const std::optional<int32_t> id = character_id(word, begin, end, buffer)) {
      if (unknown_waits) push_unknown();
      unknown_waits = false;
      ids.push_back(*id);
      continue;
    }
    if (byte_fallback_) {
      const bool affixed = (begin > 0 && !prefix_.empty()) || (end == word.size() && !suffix_.empty());
      const std::string_view character = affixed ? buffer : word.substr(begin, end - begin);
      if (append_byte_tokens(byte_ids_, character, ids)) continue;
    }
    if (!unknown_token_) continue;
    if (unknown_waits && !fuse_unknown_) push_unknown();
    unknown_waits = true;
  }
  if (unknown_waits) push_unknown();
}

// Like LongWord, merges the pair of lowest rank, the leftmost of equals, until no neighbours have a merge. pairs_[i] is
// rank << 32 | merged id of the pair that starts at i.
void Bpe::merge_short(BpeScratch& scratch) const {
  std::vector<int32_t>& ids = scratch.ids_;
  std::vector<uint64_t>& pairs = scratch.pairs_;
  const auto pair_at = [&](size_t i) {
    const Merge* merge = find_merge(ids[i], ids[i + 1]);
    return merge == nullptr ? kNoRank : pair_of(merge->rank, merge->id);
  };
  if (ids.size() < 2) return;
  pairs.resize(ids.size() - 1);
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = pair_at(i);
  for (;;) {
    size_t best = 0;
    for (size_t i = 1; i < pairs.size(); ++i) {
      if (pairs[i] >> 32 < pairs[best] >> 32) best = i;
    }
    if (pairs[best] == kNoRank) return;
    ids[best] = static_cast<int32_t>(pairs[best]);
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    pairs.erase(pairs.begin() + static_cast<std::ptrdiff_t>(best));
    if (pairs.empty()) return;
    if (best > 0) pairs[best - 1] = pair_at(best - 1);
    if (best < pairs.size()) pairs[best] = pair_at(best);
  }
}

}  // namespace spillway::text
