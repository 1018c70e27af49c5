#include "text/grammar/token_trie.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"

namespace spillway::text {
namespace {

// Decoders that put something between tokens, or change them, show it with these two.
void check_that_bytes_are_joined(const Tokenizer& tokenizer, std::string_view where) {
  std::array<int32_t, 3> ids;
  const std::array<const char*, 3> texts = {"{", "\"", "a"};
  bool joins = true;
  for (size_t i = 0; i < ids.size() && joins; ++i) {
    const std::optional<int32_t> id = tokenizer.token_to_id(texts[i]);
    joins = id.has_value();
    ids[i] = id.value_or(0);
  }
  if (!joins || tokenizer.decode(ids, false) != "{\"a")
    throw input_error(where,
                      "expected a model whose tokens are pieces of text with their spaces, got a tokenizer of "
                      "whole words; use a model with another tokenizer");
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer, std::string_view where, std::span<const int32_t> shown) {
  check_that_bytes_are_joined(tokenizer, where);
  if (tokenizer.stop_ids().empty())
    throw input_error(where,
                      "expected a model with a token that ends an answer (eos_token), got none; name it in "
                      "tokenizer_config.json");
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const bool is_left_out = tokenizer.is_special(id) && std::find(shown.begin(), shown.end(), id) == shown.end();
    bytes_.push_back(is_left_out ? std::string() : tokenizer.token_bytes(id));
    longest_ = std::max(longest_, std::ssize(bytes_.back()));
    if (!bytes_.back().empty()) ids_.push_back(id);
  }
  std::sort(ids_.begin(), ids_.end(), [&](int32_t a, int32_t b) {
    const int order = nth(bytes_, a).compare(nth(bytes_, b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<int32_t> path;  // the nodes of the token before
  std::string_view before;
  for (int32_t i = 0; i < std::ssize(ids_); ++i) {
    const std::string_view bytes = nth(bytes_, nth(ids_, i));
    const auto common = static_cast<size_t>(
        std::mismatch(bytes.begin(), bytes.end(), before.begin(), before.end()).first - bytes.begin());
    for (; path.size() > common; path.pop_back()) nth(nodes_, path.back()).behind = static_cast<int32_t>(nodes_.size());
    for (size_t depth = common; depth < bytes.size(); ++depth) {
      path.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({.behind = 0,
                        .depth = static_cast<int32_t>(depth),
                        .first_id = i,
                        .last_id = i,
                        .byte = static_cast<uint8_t>(bytes[depth])});
    }
    nth(nodes_, path.back()).last_id = i + 1;
    before = bytes;
  }
  for (const int32_t node : path) nth(nodes_, node).behind = static_cast<int32_t>(nodes_.size());
}

std::string_view TokenTrie::bytes_of(int32_t id) const {
  return id < std::ssize(bytes_) ? std::string_view(nth(bytes_, id)) : std::string_view();
}

}  // namespace spillway::text
