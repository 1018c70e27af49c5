// The tokens of a model by text and by id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/index.h"

namespace spillway::text {

// Ids need not be dense. Immutable after construction, so any thread may read.
class Vocabulary {
 public:
  Vocabulary() = default;
  // Throws InputError at `where` for ids that are negative, used twice or far above the number of tokens, and for a
  // token that appears twice.
  Vocabulary(const std::vector<std::pair<std::string, int64_t>>& tokens, std::string_view where);

  [[nodiscard]] std::optional<int32_t> find(std::string_view token) const;
  // Returns the token of `id`; nullopt for ids that no token has, negative ones included.
  [[nodiscard]] std::optional<std::string_view> token(int64_t id) const;
  // Returns the id of `unknown_token`, which `text` needs. Throws InputError at `where`.unk_token if there is none.
  [[nodiscard]] int32_t unknown_id(std::string_view unknown_token, std::string_view text, std::string_view where) const;
  [[nodiscard]] int64_t size() const { return size_; }
  // Returns one more than the highest id.
  [[nodiscard]] int64_t id_limit() const { return static_cast<int64_t>(spans_.size()); }

 private:
  struct Span {
    uint32_t begin = 0, size = 0;
    bool used = false;
  };
  [[nodiscard]] std::string_view text(int32_t id) const {
    const Span& span = nth(spans_, id);
    return std::string_view(texts_).substr(span.begin, span.size);
  }
  [[nodiscard]] size_t slot_of(std::string_view token) const;  // its slot, or the empty slot for it

  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;
  };
  std::string texts_;
  std::vector<Span> spans_;  // by id
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  int64_t size_ = 0;
};

}  // namespace spillway::text
