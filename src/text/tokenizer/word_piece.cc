#include "text/tokenizer/word_piece.h"

#include <utility>

#include "base/utf8.h"

namespace spillway::text {

WordPiece::WordPiece(const JsonField& model, TokenizerFile& file) : where_(model.where()) {
  constexpr int64_t kMax = int64_t{1} << 30;
  if (!file.has_vocab) throw model["vocab"].bad("an object of tokens and ids", "correct the file");
  vocabulary_ = Vocabulary(file.vocab, model["vocab"].where());
  unknown_token_ = model["unk_token"].string_or("[UNK]");
  prefix_ = model["continuing_subword_prefix"].string_or("##");
  const JsonField longest = model["max_input_chars_per_word"];
  longest_word_ = longest.is_null() ? 100 : static_cast<size_t>(longest.integer(0, kMax));

  std::vector<std::pair<std::string_view, int32_t>> tokens;
  tokens.reserve(file.vocab.size());
  for (const auto& [token, id] : file.vocab) tokens.emplace_back(token, static_cast<int32_t>(id));
  tokens_ = ByteTrie(std::move(tokens));
}

bool WordPiece::append_pieces(std::string_view word, std::vector<int32_t>& ids) const {
  for (size_t at = 0; at < word.size();) {
    ByteTrie::Found longest{0, -1};
    tokens_.each_behind(at == 0 ? "" : prefix_, word, at, [&](size_t length, int32_t id) { longest = {length, id}; });
    if (longest.value < 0) return false;
    ids.push_back(longest.value);
    at += longest.length;
  }
  return true;
}

void WordPiece::encode(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t count = ids.size();
  if (count_characters(word) <= longest_word_ && append_pieces(word, ids)) return;
  ids.resize(count);
  ids.push_back(vocabulary_.unknown_id(unknown_token_, word, where_));
}

}  // namespace spillway::text
