#include "data/tokenizer/model.h"

namespace spillway::data {

Model::Kind Model::read(const JsonField& model, TokenizerFile& file) {
  // Old files leave the type out; only BPE has merges.
  const std::string type = model["type"].string_or(file.has_merges ? "BPE" : "");
  if (type == "BPE") return Bpe(model, file);
  if (type == "WordLevel") return WordLevel(model, file);
  throw model["type"].bad("BPE or WordLevel",
                          "use a model with such a tokenizer, Unigram and WordPiece are not read yet");
}

}  // namespace spillway::data
