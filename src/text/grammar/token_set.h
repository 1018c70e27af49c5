// A set of tokens, as a bit for each id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway::text {

class TokenSet {
 public:
  void add(int32_t id) {
    const auto word = static_cast<size_t>(id) / 64;
    if (word >= words_.size()) words_.resize(word + 1);
    words_[word] |= uint64_t{1} << (id % 64);
    is_empty_ = false;
  }
  [[nodiscard]] bool contains(int64_t id) const {
    const auto word = static_cast<size_t>(id) / 64;
    return word < words_.size() && (words_[word] >> (id % 64) & 1) != 0;
  }
  [[nodiscard]] bool is_empty() const { return is_empty_; }

 private:
  std::vector<uint64_t> words_;
  bool is_empty_ = true;
};

}  // namespace spillway::text
