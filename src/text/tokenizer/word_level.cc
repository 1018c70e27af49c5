#include "text/tokenizer/word_level.h"

namespace spillway::text {

WordLevel::WordLevel(const JsonField& model, TokenizerFile& file) : where_(model.where()) {
  if (!file.has_vocab) throw model["vocab"].bad("an object of tokens and ids", "compare with the published file");
  vocabulary_ = Vocabulary(file.vocab, model["vocab"].where());
  unknown_token_ = model["unk_token"].string_or("<unk>");
}

void WordLevel::encode(std::string_view word, std::vector<int32_t>& ids) const {
  const std::optional<int32_t> id = vocabulary_.find(word);
  ids.push_back(id ? *id : vocabulary_.unknown_id(unknown_token_, word, where_));
}

}  // namespace spillway::text
