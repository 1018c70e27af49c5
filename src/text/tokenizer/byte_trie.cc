#include "text/tokenizer/byte_trie.h"

#include <algorithm>

#include "base/index.h"

namespace spillway::text {

// Builds breadth first: the strings are sorted, so those that share a node are a range, and its children begin where
// the next byte of that range changes.
ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> strings) : nodes_(1) {
  root_children_.fill(-1);
  std::stable_sort(strings.begin(), strings.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    size_t begin, end;
  };
  std::vector<Range> level = {{0, strings.size()}};
  for (size_t node = 0, depth = 0; !level.empty(); ++depth) {
    std::vector<Range> next;
    for (auto [at, end] : level) {
      if (at < end && strings[at].first.size() == depth && depth > 0) nodes_[node].value = strings[at].second;
      while (at < end && strings[at].first.size() == depth) ++at;
      nodes_[node].first_child = static_cast<int32_t>(nodes_.size());
      while (at < end) {
        const char c = strings[at].first[depth];
        const size_t begin = at;
        while (at < end && strings[at].first[depth] == c) ++at;
        next.push_back({begin, at});
        nodes_.push_back({.byte = static_cast<uint8_t>(c)});
        ++nodes_[node].child_count;
      }
      ++node;
    }
    level = std::move(next);
  }
  for (int32_t i = 0; i < nodes_[0].child_count; ++i) {
    const int32_t at = nodes_[0].first_child + i;
    root_children_[nth(nodes_, at).byte] = at;
  }
}

}  // namespace spillway::text
