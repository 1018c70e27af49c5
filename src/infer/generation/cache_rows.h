// Which rows of the key-value caches belong to which sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace spillway::infer {

class CacheRows {
 public:
  explicit CacheRows(int64_t capacity) : free_{{0, capacity}} {}

  // What `take` takes for a sequence of so many tokens.
  [[nodiscard]] static int64_t rows_for(int64_t tokens);

  // The first of rows_for(tokens) consecutive rows, the lowest that are free; nothing where there are none.
  [[nodiscard]] std::optional<int64_t> take(int64_t tokens);
  void give_back(int64_t first, int64_t tokens);

 private:
  struct Range {
    int64_t begin, end;
  };
  std::vector<Range> free_;  // ascending, with something between one and the next
};

}  // namespace spillway::infer
