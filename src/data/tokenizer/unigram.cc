#include "data/tokenizer/unigram.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "data/tokenizer/byte_fallback.h"
#include "data/tokenizer/utf8.h"

namespace spillway::data {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score
constexpr size_t kLongestWord = size_t{64} << 20;

}  // namespace

Unigram::Unigram(const JsonField& model, TokenizerFile& file) : scores_(std::move(file.scores)), where_(model.where()) {
  if (scores_.empty()) throw model["vocab"].bad("a list of pieces with scores", "compare with the published file");
  vocabulary_ = Vocabulary(file.vocab, model["vocab"].where());
  if (const JsonField unknown = model["unk_id"]; !unknown.is_null()) {
    unknown_id_ = static_cast<int32_t>(unknown.integer(vocabulary_.id_limit() - 1));
  }
  byte_fallback_ = model["byte_fallback"].boolean_or(false);
  byte_ids_ = byte_token_ids(vocabulary_);
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;

  std::vector<std::pair<std::string_view, int32_t>> pieces;
  pieces.reserve(file.vocab.size());
  for (const auto& [piece, id] : file.vocab) pieces.emplace_back(piece, static_cast<int32_t>(id));
  pieces_ = ByteTrie(std::move(pieces));
}

// Of equal sums the one that is found first stays: that of the piece that starts first.
void Unigram::find_best(std::string_view word, UnigramScratch& scratch) const {
  std::vector<UnigramScratch::End>& ends = scratch.ends_;
  ends.assign(word.size() + 1, {0, -1, -1});
  for (size_t begin = 0; begin < word.size();) {
    const size_t character = utf8_length(static_cast<unsigned char>(word[begin]));
    const double sum = ends[begin].sum;
    bool has_character = false;
    const auto offer = [&](size_t length, double score, int32_t id) {
      UnigramScratch::End& end = ends[begin + length];
      if (end.begin < 0 || sum + score > end.sum) end = {sum + score, static_cast<int32_t>(begin), id};
    };
    pieces_.each_at(word, begin, [&](size_t length, int32_t id) {
      has_character = has_character || length == character;
      offer(length, scores_[static_cast<size_t>(id)], id);
    });
    if (!has_character) {
      if (unknown_id_ < 0) {
        throw input_error(where_ + ".unk_id",
                          "expected the id of the unknown token, got nothing, and the text has {}, which no piece has; "
                          "set it",
                          quote(word.substr(begin, character)));
      }
      offer(character, unknown_score_, unknown_id_);
    }
    begin += character;
  }
}

void Unigram::encode(std::string_view word, UnigramScratch& scratch, std::vector<int32_t>& ids) const {
  if (word.size() > kLongestWord) {
    throw input_error(where_, "expected words of at most 64 MiB, got one of {} bytes; split the text", word.size());
  }
  find_best(word, scratch);
  std::vector<int32_t>& cuts = scratch.ends_of_pieces_;
  cuts.clear();
  for (auto end = static_cast<int32_t>(word.size()); end > 0; end = scratch.ends_[static_cast<size_t>(end)].begin) {
    cuts.push_back(end);
  }
  size_t unknown_begin = 0, begin = 0;  // neighbouring unknowns are one
  const auto flush = [&] {
    if (unknown_begin < begin) append_unknown(word.substr(unknown_begin, begin - unknown_begin), ids);
  };
  for (size_t i = cuts.size(); i-- > 0;) {
    const auto end = static_cast<size_t>(cuts[i]);
    const int32_t id = scratch.ends_[end].id;
    if (id != unknown_id_) {
      flush();
      ids.push_back(id);
      unknown_begin = end;
    }
    begin = end;
  }
  flush();
}

void Unigram::append_unknown(std::string_view text, std::vector<int32_t>& ids) const {
  if (const std::optional<int32_t> id = vocabulary_.find(text)) return ids.push_back(*id);
  if (byte_fallback_ && append_byte_tokens(byte_ids_, text, ids)) return;
  ids.push_back(unknown_id_);
}

}  // namespace spillway::data
