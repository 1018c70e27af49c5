// Allocates rows of the key-value caches to sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace spillway::infer {

class CacheRows {
 public:
  explicit CacheRows(int64_t capacity) : free_{{0, capacity}} {}

  // Returns the number of rows that take() uses for a sequence of `tokens` tokens.
  [[nodiscard]] static int64_t rows_for(int64_t tokens);

  // Takes the lowest rows_for(tokens) consecutive free rows and returns the first of them; nothing if there are none.
  [[nodiscard]] std::optional<int64_t> take(int64_t tokens);
  void give_back(int64_t first, int64_t tokens);

 private:
  struct Range {
    int64_t begin, end;
  };
  std::vector<Range> free_;  // ascending, with something between one and the next
};

}  // namespace spillway::infer
