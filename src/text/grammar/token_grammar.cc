#include "text/grammar/token_grammar.h"

#include <string_view>
#include <utility>

#include "base/index.h"

namespace spillway::text {
namespace {

// Some 20 MiB each, for a vocabulary of 150,000 tokens.
constexpr int64_t kMaxSets = 1024, kMaxStates = int64_t{1} << 16;

}  // namespace

void TokenGrammar::forget_if_large() {
  if (sets_ < kMaxSets && automaton_.states() < kMaxStates) return;
  automaton_.forget();
  tokens_.clear();
  sets_ = 0;
  ++times_forgotten_;
}

std::shared_ptr<const TokenSet> TokenGrammar::tokens_after(ByteAutomaton::State state) {
  if (static_cast<size_t>(state) >= tokens_.size()) tokens_.resize(static_cast<size_t>(state) + 1);
  if (nth(tokens_, state)) return nth(tokens_, state);
  auto found = std::make_shared<TokenSet>();
  std::vector<ByteAutomaton::State> path(static_cast<size_t>(trie_->longest()) + 1);
  path[0] = state;
  const std::vector<TokenTrie::Node>& nodes = trie_->nodes();
  for (int32_t i = 0; i < std::ssize(nodes);) {
    const TokenTrie::Node& node = nth(nodes, i);
    const ByteAutomaton::State next = automaton_.step(nth(path, node.depth), node.byte);
    if (next == ByteAutomaton::kDead) {
      i = node.behind;
      continue;
    }
    nth(path, node.depth + 1) = next;
    for (const int32_t id : trie_->ids_of(node)) found->add(id);
    ++i;
  }
  ++sets_;
  return nth(tokens_, state) = std::move(found);
}

// Reads the text again if the grammar has forgotten its states.
void TokenMatcher::catch_up() {
  if (std::exchange(times_forgotten_, grammar_->times_forgotten_) == grammar_->times_forgotten_) return;
  state_ = ByteAutomaton::kStart;
  for (const char c : text_) state_ = grammar_->automaton_.step(state_, static_cast<uint8_t>(c));
}

TokenMatcher::Next TokenMatcher::next() {
  const std::lock_guard lock(grammar_->mutex_);
  grammar_->forget_if_large();
  catch_up();
  return {grammar_->tokens_after(state_), grammar_->automaton_.is_whole(state_)};
}

bool TokenMatcher::add(int32_t id) {
  const std::lock_guard lock(grammar_->mutex_);
  catch_up();
  const std::string_view bytes = grammar_->trie_->bytes_of(id);
  ByteAutomaton::State state = state_;
  for (const char c : bytes) {
    state = grammar_->automaton_.step(state, static_cast<uint8_t>(c));
    if (state == ByteAutomaton::kDead) return false;
  }
  state_ = state;
  text_ += bytes;
  return !bytes.empty();
}

std::shared_ptr<TokenGrammar> token_grammar(const Tokenizer& tokenizer, ByteGrammar grammar, std::string_view where) {
  return std::make_shared<TokenGrammar>(std::make_shared<TokenTrie>(tokenizer, where), std::move(grammar));
}

}  // namespace spillway::text
