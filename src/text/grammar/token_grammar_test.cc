#include "text/grammar/token_grammar.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "text/grammar/json_schema.h"
#include "text/tokenizer.h"

using namespace spillway;
using namespace spillway::text;
using nlohmann::json;

namespace {

// The letters of JSON as tokens, some of them together, and two that are no text.
const std::vector<std::string> kPieces = {"{",    "}",
                                          "[",    "]",
                                          "\"",   ":",
                                          ",",    "\xC4\xA0",
                                          "a",    "b",
                                          "c",    "n",
                                          "u",    "l",
                                          "t",    "r",
                                          "e",    "f",
                                          "s",    "1",
                                          "2",    "0",
                                          "-",    ".",
                                          "\\",   "{\"",
                                          "\":",  "\"}",
                                          "\",",  "true",
                                          "null", "],",
                                          "12",   "\":\xC4\xA0[",
                                          "abc"};

Tokenizer tokenizer(const char* decoder, const char* config) {
  json file = {{"version", "1.0"},
               {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
               {"decoder", {{"type", decoder}}}};
  file["model"] = {{"type", "BPE"}, {"merges", json::array()}};
  for (const std::string& piece : kPieces) file["model"]["vocab"][piece] = file["model"]["vocab"].size();
  file["added_tokens"] = json::array();
  for (const char* name : {"<end>", "{}"}) {
    file["added_tokens"].push_back({{"id", file["model"]["vocab"].size() + file["added_tokens"].size()},
                                    {"content", name},
                                    {"special", true},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false}});
  }
  return Tokenizer::from_json(file.dump(), config, "test");
}

constexpr const char* kConfig = R"({"eos_token": "<end>"})";

bool is_read(ByteAutomaton& automaton, std::string_view text) {
  ByteAutomaton::State state = ByteAutomaton::kStart;
  for (const char c : text) {
    state = automaton.step(state, static_cast<uint8_t>(c));
    if (state == ByteAutomaton::kDead) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("the tokens that may come next are those whose bytes the grammar goes on with, special ones never") {
  const Tokenizer tokens = tokenizer("ByteLevel", kConfig);
  const auto grammar = token_grammar(tokens, json_object_grammar(), "test");
  ByteAutomaton automaton(json_object_grammar());
  RandomStream random(7, 0);
  for (int round = 0; round < 30; ++round) {
    TokenMatcher matcher(grammar);
    std::string text;
    for (int step = 0; step < 40; ++step) {
      const TokenMatcher::Next next = matcher.next();
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < tokens.vocabulary_size(); ++id) {
        CAPTURE(text + "|" + tokens.token_bytes(id));
        CHECK(next.tokens->contains(id) ==
              (!tokens.is_special(id) && is_read(automaton, text + tokens.token_bytes(id))));
        if (next.tokens->contains(id)) allowed.push_back(id);
      }
      CHECK(next.may_end == !json::parse(text, nullptr, false).is_discarded());
      CHECK(next.tokens->is_empty() == allowed.empty());
      if (allowed.empty()) break;
      const int32_t id = allowed[static_cast<size_t>(random.uniform() * static_cast<double>(allowed.size()))];
      REQUIRE(matcher.add(id));
      text += tokens.token_bytes(id);
    }
  }
}

TEST_CASE("a token that the grammar does not go on with is not taken") {
  const Tokenizer tokens = tokenizer("ByteLevel", kConfig);
  TokenMatcher matcher(token_grammar(tokens, json_object_grammar(), "test"));
  CHECK(!matcher.add(*tokens.token_to_id("}")));
  CHECK(!matcher.add(*tokens.token_to_id("<end>")));
  CHECK(matcher.add(*tokens.token_to_id("{")));
}

TEST_CASE("many different states are forgotten, and texts go on all the same") {
  const Tokenizer tokens = tokenizer("ByteLevel", kConfig);
  const auto grammar = token_grammar(tokens, json_schema_grammar(true, "test"), "test");
  TokenMatcher waiting(grammar), matcher(grammar);
  REQUIRE(waiting.add(*tokens.token_to_id("[")));
  // Each depth has states of its own.
  for (int depth = 0; depth < 3000; ++depth) {
    REQUIRE(matcher.next().tokens->contains(*tokens.token_to_id("[")));
    REQUIRE(matcher.add(*tokens.token_to_id("[")));
  }
  CHECK(!waiting.next().may_end);
  REQUIRE(waiting.add(*tokens.token_to_id("]")));
  CHECK(waiting.next().may_end);
  for (int depth = 0; depth < 3000; ++depth) REQUIRE(matcher.add(*tokens.token_to_id("]")));
  CHECK(matcher.next().may_end);
}

TEST_CASE("a tokenizer of whole words, and one without an end, are refused") {
  CHECK_THROWS_WITH_AS((void)token_grammar(tokenizer("WordPiece", kConfig), json_object_grammar(), "--json-schema"),
                       "[--json-schema] expected a model whose tokens are pieces of text with their spaces, got a "
                       "tokenizer of whole words; use a model with another tokenizer",
                       InputError);
  CHECK_THROWS_AS((void)token_grammar(tokenizer("ByteLevel", "{}"), json_object_grammar(), "test"), InputError);
}
