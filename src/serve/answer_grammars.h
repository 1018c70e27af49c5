// Grammars of the answers that requests ask for. Compiling one, and finding out which tokens go on, takes time: those
// asked for last are kept.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "serve/request.h"
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

 private:
  // Returns the grammar that is kept for a schema; null if none is.
  [[nodiscard]] std::shared_ptr<text::TokenGrammar> find(const std::string& name);
  std::shared_ptr<text::TokenGrammar> keep(const std::string& name, text::ByteGrammar grammar);

  const text::Tokenizer& tokenizer_;
  std::mutex mutex_;  // of the following
  std::shared_ptr<const text::TokenTrie> trie_;
  std::list<std::pair<std::string, std::shared_ptr<text::TokenGrammar>>> kept_;  // by their schema, last used first
};

}  // namespace spillway::serve
