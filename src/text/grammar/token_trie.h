// The tokens of a vocabulary by their bytes, as a tree: tokens that begin alike are looked at together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace spillway::text {

// Immutable. Special tokens but for those that are asked for, and tokens without bytes, are not in it.
class TokenTrie {
 public:
  // The nodes are in depth-first order: behind a node come those below it, up to `behind`.
  struct Node {
    int32_t behind, depth;      // the depth of the first byte is 0
    int32_t first_id, last_id;  // of ids(): the tokens that end here
    uint8_t byte;
  };

  // Throws InputError at `where` for a tokenizer whose texts are not its tokens' bytes put together (WordPiece, ...),
  // and for one without a token that ends an answer. `shown` are special tokens that stand for their text.
  TokenTrie(const Tokenizer& tokenizer, std::string_view where, std::span<const int32_t> shown = {});

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] std::span<const int32_t> ids_of(const Node& node) const {
    return std::span(ids_).subspan(static_cast<size_t>(node.first_id),
                                   static_cast<size_t>(node.last_id - node.first_id));
  }
  // Returns the bytes of a token; empty if it is not in the tree.
  [[nodiscard]] std::string_view bytes_of(int32_t id) const;
  [[nodiscard]] int64_t longest() const { return longest_; }

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> ids_;
  std::vector<std::string> bytes_;  // by id
  int64_t longest_ = 0;
};

}  // namespace spillway::text
