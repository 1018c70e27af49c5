// Finds the strings of a fixed set that start at a position of a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/index.h"

namespace spillway::text {

// A trie over bytes. Immutable; any thread may read.
class ByteTrie {
 public:
  // Takes the strings and their values, not negative; ignores empty strings. Of equal strings the first one counts.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> strings = {});

  struct Found {
    size_t length;  // bytes
    int32_t value;
  };
  // Returns the longest string that `text` has at `position`.
  [[nodiscard]] std::optional<Found> longest_at(std::string_view text, size_t position) const {
    std::optional<Found> result;
    each_at(text, position, [&](size_t length, int32_t value) { result = Found{length, value}; });
    return result;
  }

  // Calls found(length, value) for every string that `text` has at `position`, shorter ones first.
  template <typename Call>
  void each_at(std::string_view text, size_t position, const Call& found) const {
    each_from(0, text, position, found);
  }
  // Does the same for strings that begin with `prefix`; `length` counts the rest, and may not be 0.
  template <typename Call>
  void each_behind(std::string_view prefix, std::string_view text, size_t position, const Call& found) const {
    int32_t node = 0;
    for (const char c : prefix) {
      node = child(node, static_cast<unsigned char>(c));
      if (node < 0) return;
    }
    each_from(node, text, position, found);
  }

  // Returns the next position from `position` on where a string may start.
  [[nodiscard]] size_t next_start(std::string_view text, size_t position) const {
    while (position < text.size() && child(0, static_cast<unsigned char>(text[position])) < 0) ++position;
    return position;
  }

 private:
  // The children of a node stand beside each other, in the order of their bytes.
  struct Node {
    int32_t value = -1;
    int32_t first_child = 0;
    uint16_t child_count = 0;
    uint8_t byte = 0;
  };
  static constexpr uint16_t kFewChildren = 8;  // up to so many a scan beats bisection

  // Returns -1 if there is none. REQUIRES: node >= 0.
  [[nodiscard]] int32_t child(int32_t node, unsigned char byte) const {
    if (node == 0) return root_children_[byte];
    const Node& parent = nth(nodes_, node);
    int32_t begin = parent.first_child, end = begin + parent.child_count;
    while (end - begin > kFewChildren) {
      const int32_t middle = begin + (end - begin) / 2;
      (nth(nodes_, middle).byte <= byte ? begin : end) = middle;
    }
    for (; begin < end; ++begin) {
      if (nth(nodes_, begin).byte == byte) return begin;
    }
    return -1;
  }

  template <typename Call>
  void each_from(int32_t node, std::string_view text, size_t position, const Call& found) const {
    for (size_t i = position; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node < 0) return;
      const int32_t value = nth(nodes_, node).value;
      if (value >= 0) found(i + 1 - position, value);
    }
  }

  std::vector<Node> nodes_;
  std::array<int32_t, 256> root_children_{};
};

}  // namespace spillway::text
