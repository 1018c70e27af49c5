#include "text/tokenizer/unigram.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/index.h"
#include "base/text.h"
#include "base/utf8.h"
#include "text/tokenizer/byte_fallback.h"

namespace spillway::text {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score
constexpr size_t kLongestWord = size_t{64} << 20;
constexpr int32_t kNone = -1;

}  // namespace

Unigram::Unigram(const JsonField& model, TokenizerFile& file) : scores_(std::move(file.scores)), where_(model.where()) {
  if (scores_.empty()) throw model["vocab"].bad("a list of pieces with scores", "compare with the published file");
  vocabulary_ = Vocabulary(file.vocab, model["vocab"].where());
  if (const JsonField unknown = model["unk_id"]; !unknown.is_null()) {
    unknown_id_ = static_cast<int32_t>(unknown.integer(0, vocabulary_.id_limit() - 1));
  }
  byte_fallback_ = model["byte_fallback"].boolean_or(false);
  byte_ids_ = byte_token_ids(vocabulary_);
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;

  std::vector<std::pair<std::string_view, int32_t>> pieces;
  pieces.reserve(file.vocab.size());
  size_t longest = 4;  // of a character
  for (const auto& [piece, id] : file.vocab) {
    pieces.emplace_back(piece, static_cast<int32_t>(id));
    longest = std::max(longest, piece.size());
  }
  reach_ = std::bit_ceil(longest + 1);
  pieces_ = ByteTrie(std::move(pieces));
}

// Keeps the first of equal sums: that of the piece that starts first.
void Unigram::find_best(std::string_view word, UnigramScratch& scratch) const {
  std::vector<int32_t>& links = scratch.links_;
  links.assign(word.size() + 1, kNone);
  scratch.sums_.assign(reach_, 0);
  const auto sum_at = [&](size_t at) -> double& { return scratch.sums_[at & (reach_ - 1)]; };
  for (size_t begin = 0; begin < word.size();) {
    const size_t character = utf8_length(static_cast<unsigned char>(word[begin]));
    const double sum = sum_at(begin);
    bool has_character = false;
    const auto offer = [&](size_t length, double score) {
      const size_t end = begin + length;
      if (links[end] != kNone && sum + score <= sum_at(end)) return;
      sum_at(end) = sum + score;
      links[end] = static_cast<int32_t>(begin);
    };
    pieces_.each_at(word, begin, [&](size_t length, int32_t id) {
      has_character = has_character || length == character;
      offer(length, nth(scores_, id));
    });
    if (!has_character) {
      if (unknown_id_ < 0) {
        throw input_error(where_ + ".unk_id",
                          "expected the id of the unknown token, got nothing, and the text has {}, which no piece has; "
                          "set it",
                          quote(word.substr(begin, character)));
      }
      offer(character, unknown_score_);
    }
    begin += character;
  }
}

// Returns the id of a piece of the best way: one that is not in the vocabulary is an unknown character.
int32_t Unigram::id_of(std::string_view piece) const {
  int32_t result = unknown_id_;
  pieces_.each_at(piece, 0, [&](size_t length, int32_t id) {
    if (length == piece.size()) result = id;
  });
  return result;
}

void Unigram::encode(std::string_view word, UnigramScratch& scratch, std::vector<int32_t>& ids) const {
  if (word.size() > kLongestWord) {
    throw input_error(where_, "expected words of at most 64 MiB, got one of {} bytes; split the text", word.size());
  }
  find_best(word, scratch);
  std::vector<int32_t>& links = scratch.links_;
  for (auto end = static_cast<int32_t>(word.size()), next = kNone; end >= 0;) {
    const int32_t begin = end == 0 ? kNone : nth(links, end);
    nth(links, end) = next;
    next = end;
    end = begin;
  }
  size_t unknown_begin = 0;  // neighbouring unknowns are one
  const auto flush = [&](size_t end) {
    if (unknown_begin < end) append_unknown(word.substr(unknown_begin, end - unknown_begin), ids);
  };
  for (size_t begin = 0; begin < word.size();) {
    const auto end = static_cast<size_t>(links[begin]);
    if (const int32_t id = id_of(word.substr(begin, end - begin)); id != unknown_id_) {
      flush(begin);
      ids.push_back(id);
      unknown_begin = end;
    }
    begin = end;
  }
  flush(word.size());
}

void Unigram::append_unknown(std::string_view text, std::vector<int32_t>& ids) const {
  if (const std::optional<int32_t> id = vocabulary_.find(text)) return ids.push_back(*id);
  if (byte_fallback_ && append_byte_tokens(byte_ids_, text, ids)) return;
  ids.push_back(unknown_id_);
}

}  // namespace spillway::text
