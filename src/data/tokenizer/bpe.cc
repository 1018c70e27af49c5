#include "data/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/text.h"
#include "data/tokenizer/byte_fallback.h"
#include "data/tokenizer/utf8.h"

namespace spillway::data {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, SentencePiece's space
constexpr size_t kShortWord = 24;                    // symbols; below this a scan beats a heap
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
  if (!file.has_vocab) throw model["vocab"].bad("an object of tokens and ids", "compare with the published file");
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

// Where no token has SentencePiece's space behind another character, no merge reaches across such a place, and a long
// text may be cut there into words without changing a single id.
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
  split_into_characters(word, scratch.ids_);
  if (scratch.ids_.size() <= kShortWord)
    merge_short(scratch);
  else
    merge_long(scratch);
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

// An unknown character waits until the next known one (the library's order, which byte fallback does not end).
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

// Both merge the pair of lowest rank, the leftmost of equals, until no neighbours have a merge.
// pairs_[i] is rank << 32 | merged id of the pair that starts at i.
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

// A heap of rank << 32 | position; an entry whose pair has changed since no longer has that rank and is passed over.
void Bpe::merge_long(BpeScratch& scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols_;
  std::vector<uint64_t>& queue = scratch.queue_;
  const auto count = static_cast<int32_t>(scratch.ids_.size());
  symbols.clear();
  queue.clear();
  for (int32_t i = 0; i < count; ++i) symbols.push_back({scratch.ids_[static_cast<size_t>(i)], i - 1, i + 1, false});
  symbols.back().next = -1;
  const auto at = [&](int32_t i) -> BpeScratch::Symbol& { return symbols[static_cast<size_t>(i)]; };
  const auto merge_at = [&](int32_t i) { return find_merge(at(i).id, at(at(i).next).id); };
  const auto enqueue = [&](int32_t i) {
    if (i < 0 || at(i).next < 0) return false;
    const Merge* merge = merge_at(i);
    if (merge != nullptr) queue.push_back(pair_of(merge->rank, i));
    return merge != nullptr;
  };
  const std::greater<> later;
  for (int32_t i = 0; i < count; ++i) (void)enqueue(i);
  std::make_heap(queue.begin(), queue.end(), later);
  while (!queue.empty()) {
    const uint64_t top = queue.front();
    std::pop_heap(queue.begin(), queue.end(), later);
    queue.pop_back();
    const auto position = static_cast<int32_t>(top);
    BpeScratch::Symbol& left = at(position);
    if (left.merged || left.next < 0) continue;
    const Merge* merge = merge_at(position);
    if (merge == nullptr || static_cast<uint64_t>(merge->rank) != top >> 32) continue;
    BpeScratch::Symbol& right = at(left.next);
    left.id = merge->id;
    right.merged = true;
    left.next = right.next;
    if (left.next >= 0) at(left.next).previous = position;
    if (enqueue(left.previous)) std::push_heap(queue.begin(), queue.end(), later);
    if (enqueue(position)) std::push_heap(queue.begin(), queue.end(), later);
  }
  scratch.ids_.clear();
  for (int32_t i = 0; i >= 0; i = at(i).next) scratch.ids_.push_back(at(i).id);
}

}  // namespace spillway::data
