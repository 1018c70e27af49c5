// Grammars of the answers that requests ask for. Compiling one, and finding out which tokens go on, takes time: those
// asked for last are kept.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/request.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/token_grammar.h"
#include "text/tokenizer.h"

namespace spillway::serve {

// Thread-safe. Borrows the tokenizer.
class AnswerGrammars {
 public:
  explicit AnswerGrammars(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Returns the grammar of the request's format; null if that is text. Throws RequestError 400 for a schema that is
  // none, is not supported or cannot be met, and for a model that cannot be held to a format.
  [[nodiscard]] std::shared_ptr<text::TokenGrammar> of(const GenerationRequest& request);
  // Returns the grammar of answers that are these calls, in which the special tokens `marks` stand for their text.
  // Throws as of().
  [[nodiscard]] std::shared_ptr<text::TokenGrammar> of(const text::FramedDocuments& calls,
                                                       const std::vector<int32_t>& marks);

 private:
  // Returns the grammar that is kept under a name; null if none is.
  [[nodiscard]] std::shared_ptr<text::TokenGrammar> find(const std::string& name);
  std::shared_ptr<text::TokenGrammar> keep(const std::string& name, text::ByteGrammar grammar,
                                           const std::vector<int32_t>& marks);

  const text::Tokenizer& tokenizer_;
  std::mutex mutex_;                                                              // of the following
  std::map<std::vector<int32_t>, std::shared_ptr<const text::TokenTrie>> tries_;  // by the marks in them
  std::list<std::pair<std::string, std::shared_ptr<text::TokenGrammar>>> kept_;   // last used first
};

}  // namespace spillway::serve
