#include "text/tokenizer/model.h"

namespace spillway::text {

Model::Kind Model::read(const JsonField& model, TokenizerFile& file) {
  // Old files leave the type out; only BPE has merges, and only Unigram scores.
  const std::string type = model["type"].string_or(file.has_merges ? "BPE" : !file.scores.empty() ? "Unigram" : "");
  if (type == "BPE") return Bpe(model, file);
  if (type == "Unigram") return Unigram(model, file);
  if (type == "WordPiece") return WordPiece(model, file);
  if (type == "WordLevel") return WordLevel(model, file);
  throw model["type"].bad("BPE, Unigram, WordPiece or WordLevel", "use a model with such a tokenizer");
}

}  // namespace spillway::text
