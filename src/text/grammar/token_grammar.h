// A grammar over a vocabulary: says which tokens may come next, so that an answer is a text of the grammar.
//
//   const auto grammar = std::make_shared<TokenGrammar>(trie, json_schema_grammar(schema, "schema.json"));
//   TokenMatcher matcher(grammar);
//   if (matcher.next().tokens->contains(id)) matcher.add(id);
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "text/grammar/byte_automaton.h"
#include "text/grammar/token_set.h"
#include "text/grammar/token_trie.h"

namespace spillway::text {

class TokenMatcher;

// All that use it share the tokens that it has found for a state. Thread-safe.
class TokenGrammar {
 public:
  TokenGrammar(std::shared_ptr<const TokenTrie> trie, ByteGrammar grammar)
      : trie_(std::move(trie)), automaton_(std::move(grammar)) {}

 private:
  friend class TokenMatcher;

  void forget_if_large();
  [[nodiscard]] std::shared_ptr<const TokenSet> tokens_after(ByteAutomaton::State state);

  std::shared_ptr<const TokenTrie> trie_;
  std::mutex mutex_;  // of the following
  ByteAutomaton automaton_;
  std::vector<std::shared_ptr<const TokenSet>> tokens_;  // by state; null: not looked for yet
  int64_t sets_ = 0;
  int64_t times_forgotten_ = 0;
};

// An answer as it grows. Belongs to one thread at a time.
class TokenMatcher {
 public:
  explicit TokenMatcher(std::shared_ptr<TokenGrammar> grammar) : grammar_(std::move(grammar)) {}

  struct Next {
    std::shared_ptr<const TokenSet> tokens;  // each of which some whole text goes on with
    bool may_end = false;                    // the answer is a whole text
  };
  [[nodiscard]] Next next();
  // Appends a token. Returns false if it is none of next().tokens; the answer has ended then.
  [[nodiscard]] bool add(int32_t id);

 private:
  void catch_up();

  std::shared_ptr<TokenGrammar> grammar_;
  std::string text_;
  ByteAutomaton::State state_ = ByteAutomaton::kStart;
  int64_t times_forgotten_ = 0;  // by the grammar, when `state_` was found
};

// Returns a grammar over the tokens of a tokenizer. Throws InputError at `where` for a tokenizer whose tokens cannot be
// put together, or without a token that ends an answer.
[[nodiscard]] std::shared_ptr<TokenGrammar> token_grammar(const Tokenizer& tokenizer, ByteGrammar grammar,
                                                          std::string_view where);

}  // namespace spillway::text
