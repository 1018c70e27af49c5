// Tokens that are cut out of a text before the model sees it: special tokens such as <|im_end|>, and plain ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/json_field.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/vocabulary.h"

namespace spillway::text {

struct AddedToken {
  std::string content;
  std::string text;  // its form in decoded text: the content, normalized if `normalized`
  int32_t id = 0;
  bool single_word = false;             // not inside a word
  bool lstrip = false, rstrip = false;  // swallows white space on that side
  bool normalized = false;              // searched in the normalized text, and normalized itself
  bool special = false;                 // may be left out of decoded text

  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

// Reads content and flags; the id is -1. `is_special` makes it special whatever the field says.
[[nodiscard]] AddedToken read_added_token(const JsonField& field, bool is_special);

// The added tokens of a tokenizer. Any thread may read while none adds.
class AddedTokens {
 public:
  // `field` is the list of tokenizer.json. Ids are the library's: the vocabulary's if the content is a token of it,
  // else the next free ones in the order of the list; a warning tells if the file says otherwise. Throws InputError for
  // ids and contents that appear twice and for an id that collides with the vocabulary.
  AddedTokens(const JsonField& field, const Vocabulary& vocabulary, const Normalizer& normalizer);

  // Adds tokens that stand for raw text, with the next free ids; existing ones are unchanged, except that decoding may
  // leave them out if `special`. Throws InputError for an empty one, and if the vocabulary leaves no room.
  void add(std::span<const std::string> contents, bool special, const Vocabulary& vocabulary);

  // Adds these in their order, or gives them to tokens that are there: their flags stand for those before, except that
  // what was special stays so. New ones get ids as in add(); `where` names their file in a warning for one that has
  // another id (-1: none) there.
  void update(std::span<const AddedToken> tokens, std::string_view where, const Vocabulary& vocabulary,
              const Normalizer& normalizer);

  // Makes special tokens spell themselves out in encoded text (split_special_tokens).
  void split_special() { splits_special_ = true; }

  [[nodiscard]] std::optional<int32_t> find(std::string_view content) const;
  [[nodiscard]] const AddedToken* token(int64_t id) const;
  [[nodiscard]] const std::map<int32_t, AddedToken>& by_id() const { return by_id_; }
  // Returns true if decoding may leave this token out. The library compares its text here, so that a special token
  // whose normalized text differs from its content stays; so do we.
  [[nodiscard]] bool is_skipped(std::string_view text) const { return special_.contains(std::string(text)); }
  // Returns one more than the highest id, or 0.
  [[nodiscard]] int64_t id_limit() const { return by_id_.empty() ? 0 : int64_t{by_id_.rbegin()->first} + 1; }

  // Cuts `text` at the tokens that stand for raw (or for normalized) text: calls on_text(begin, end) for the text
  // between, unless it is empty, and on_token(id), in order.
  template <typename Text, typename Token>
  void split(bool normalized, std::string_view text, const Text& on_text, const Token& on_token) const {
    const ByteTrie& trie = normalized ? normalized_ : raw_;
    size_t done = 0;
    for (size_t at = trie.next_start(text, 0); at < text.size(); at = trie.next_start(text, at)) {
      const auto found = trie.longest_at(text, at);
      if (!found) {
        ++at;
        continue;
      }
      const AddedToken& token = by_id_.at(found->value);
      const size_t match = at;
      at += found->length;
      if (splits_special_ && is_skipped(token.content)) continue;
      if (token.single_word && touches_word(text, match, at)) continue;
      const size_t begin = token.lstrip ? std::max(space_before(text, match), done) : match;
      const size_t end = token.rstrip ? space_behind(text, at) : at;
      if (done < begin) on_text(done, begin);
      if (begin < end) on_token(token.id);  // else the token before has swallowed this one with its white space
      done = end;
    }
    if (done < text.size()) on_text(done, text.size());
  }

 private:
  static bool touches_word(std::string_view text, size_t begin, size_t end);
  static size_t space_before(std::string_view text, size_t position);
  static size_t space_behind(std::string_view text, size_t position);
  void add_from_file(AddedToken token, const Vocabulary& vocabulary, const JsonField& field);
  // Returns the id for a new token: its own in the vocabulary, else the next behind all others.
  [[nodiscard]] int64_t id_for(std::string_view content, const Vocabulary& vocabulary) const;
  // Throws InputError if the vocabulary has no room for it.
  [[nodiscard]] int64_t new_id(std::string_view content, const Vocabulary& vocabulary) const;
  // Sets the texts of all tokens, and indexes them.
  void normalize(const Normalizer& normalizer);
  void index();

  std::map<int32_t, AddedToken> by_id_;
  std::unordered_map<std::string, int32_t> by_content_;
  std::unordered_set<std::string> special_;
  ByteTrie raw_, normalized_;
  bool splits_special_ = false;
};

}  // namespace spillway::text
