#include "data/tokenizer/word_level.h"

#include "base/text.h"

namespace spillway::data {

WordLevel::WordLevel(const JsonField& model, TokenizerFile& file) : where_(model.where()) {
  if (!file.has_vocab) throw model["vocab"].bad("an object of tokens and ids", "compare with the published file");
  vocabulary_ = Vocabulary(file.vocab, model["vocab"].where());
  unknown_token_ = model["unk_token"].string_or("<unk>");
}

void WordLevel::encode(std::string_view word, std::vector<int32_t>& ids) const {
  std::optional<int32_t> id = vocabulary_.find(word);
  if (!id) id = vocabulary_.find(unknown_token_);
  if (!id) {
    throw input_error(where_ + ".unk_token",
                      "expected a token of the vocabulary, got {}, and the text has the unknown "
                      "word {}; add one of them to model.vocab",
                      quote(unknown_token_), quote(word));
  }
  ids.push_back(*id);
}

}  // namespace spillway::data
