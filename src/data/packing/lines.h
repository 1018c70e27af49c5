// Lines: the sequences that share a row of a micro-batch. A line holds whole sequences, each made of one piece of
// tokens or, if rows are wrapped, of several.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/index.h"
#include "base/sizes.h"
#include "data/rows/row_table.h"

namespace spillway::data {

struct Lines {
  std::vector<Piece> pieces;  // line after line
  std::vector<int64_t> ends;  // of each line, in `pieces`

  [[nodiscard]] int64_t size() const { return std::ssize(ends); }
  // The pieces of lines [first, last).
  [[nodiscard]] std::span<const Piece> between(int64_t first, int64_t last) const {
    const int64_t begin = end_before(first), end = end_before(last);
    return subspan_of(pieces, begin, end - begin);
  }
  [[nodiscard]] std::span<const Piece> line(int64_t index) const { return between(index, index + 1); }
  void end_line() { ends.push_back(std::ssize(pieces)); }
  // Drops the lines after the first `count`. REQUIRES: there are that many.
  void keep_first(int64_t count) {
    resize(ends, count);
    resize(pieces, end_before(count));
  }
  // Drops the first `count` lines. REQUIRES: there are that many.
  void drop_first(int64_t count) {
    const int64_t begin = end_before(count);
    pieces.erase(pieces.begin(), pieces.begin() + begin);
    ends.erase(ends.begin(), ends.begin() + count);
    for (int64_t& end : ends) end -= begin;
  }
  // The same lines in another order.
  [[nodiscard]] Lines in_order(std::span<const int64_t> order) const;

 private:
  [[nodiscard]] int64_t end_before(int64_t line) const { return line == 0 ? 0 : nth(ends, line - 1); }
};

// Sorts the indices 0, 1, ..., count - 1, the longest first and equal lengths in their order, as decreasing strategies
// need them. Sorts them as numbers with the length above the index. REQUIRES: count <= 2^32, lengths from 0 to 2^31 -
// 1.
class LongestFirst {
 public:
  template <typename LengthAt>
  void sort(size_t count, const LengthAt& length_at) {
    keys_.resize(count);
    for (size_t i = 0; i < count; ++i)
      keys_[i] = (uint64_t{kMaxLength - static_cast<uint32_t>(length_at(i))} << 32) | i;
    std::sort(keys_.begin(), keys_.end());
  }
  [[nodiscard]] size_t size() const { return keys_.size(); }
  [[nodiscard]] int32_t length(size_t place) const {
    return static_cast<int32_t>(kMaxLength - static_cast<uint32_t>(keys_[place] >> 32));
  }
  [[nodiscard]] size_t index(size_t place) const { return static_cast<uint32_t>(keys_[place]); }

 private:
  static constexpr uint32_t kMaxLength = 0x7FFFFFFF;
  std::vector<uint64_t> keys_;
};

// Appends `count` lines: piece(i) goes to the end of line line_of[i] of them. REQUIRES: each gets at least one piece.
template <typename PieceAt>
void append_lines(std::span<const int32_t> line_of, int64_t count, const PieceAt& piece, Lines& lines) {
  auto places = make_vector<int64_t>(count);  // how many, then where the next one goes
  for (const int32_t line : line_of) ++nth(places, line);
  int64_t end = std::ssize(lines.pieces);
  for (int64_t& place : places) {
    const int64_t pieces = std::exchange(place, end);
    end += pieces;
    lines.ends.push_back(end);
  }
  resize(lines.pieces, end);
  for (size_t i = 0; i < line_of.size(); ++i) nth(lines.pieces, nth(places, line_of[i])++) = piece(i);
}

[[nodiscard]] int64_t count_tokens(std::span<const Piece> pieces);

}  // namespace spillway::data
