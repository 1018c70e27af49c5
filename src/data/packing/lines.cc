#include "data/packing/lines.h"

namespace spillway::data {

Lines Lines::in_order(std::span<const int64_t> order) const {
  Lines result;
  result.pieces.reserve(pieces.size());
  result.ends.reserve(ends.size());
  for (const int64_t index : order) {
    const std::span<const Piece> one = line(index);
    result.pieces.insert(result.pieces.end(), one.begin(), one.end());
    result.end_line();
  }
  return result;
}

int64_t count_tokens(std::span<const Piece> pieces) {
  int64_t tokens = 0;
  for (const Piece& piece : pieces) tokens += piece.length;
  return tokens;
}

}  // namespace spillway::data
