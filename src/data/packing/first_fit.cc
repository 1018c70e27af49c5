#include "data/packing/first_fit.h"

#include <algorithm>

#include "base/index.h"
#include "base/math.h"

namespace spillway::data {
namespace {

// The room of each line, in a tree of maxima that finds the first line with room in log time.
class FirstFitRooms {
 public:
  FirstFitRooms(int64_t max_lines, int64_t capacity, int64_t line_rows) : line_rows_(line_rows) {
    while (leaves_ < static_cast<size_t>(max_lines)) leaves_ *= 2;
    room_.assign(2 * leaves_, narrow<int32_t>(capacity));
    if (line_rows_ > 0) rows_.assign(leaves_, 0);
  }

  // Returns the line for a row of `tokens` tokens.
  int32_t add(int32_t tokens) {
    size_t node = 1;
    while (node < leaves_) node = room_[2 * node] >= tokens ? 2 * node : 2 * node + 1;
    const auto line = narrow<int32_t>(node - leaves_);
    room_[node] -= tokens;
    if (line_rows_ > 0 && ++rows_[node - leaves_] == line_rows_) room_[node] = 0;
    for (node /= 2; node >= 1; node /= 2) room_[node] = std::max(room_[2 * node], room_[2 * node + 1]);
    return line;
  }

 private:
  size_t leaves_ = 1;
  int64_t line_rows_;
  std::vector<int32_t> room_;  // heap-shaped; the leaves are the lines
  std::vector<int64_t> rows_;  // of each line, where they are counted
};

}  // namespace

Lines pack_first_fit(const RowTable& rows, int64_t capacity, int64_t line_rows) {
  const auto count = static_cast<size_t>(rows.size());
  int64_t tokens = 0;
  for (int64_t row = 0; row < rows.size(); ++row) tokens += rows.length(row);
  LongestFirst by_length;
  by_length.sort(count, [&](size_t row) { return rows.length(static_cast<int64_t>(row)); });
  // No two lines fit into one, so that all but one are at least half full, or have the maximal number of rows.
  const int64_t full_lines = line_rows > 0 ? rows.size() / line_rows : 0;
  FirstFitRooms rooms(std::min(rows.size(), 2 * tokens / capacity + 2 + full_lines), capacity, line_rows);
  std::vector<int32_t> line_of(count);
  for (size_t i = 0; i < count; ++i) line_of[by_length.index(i)] = rooms.add(by_length.length(i));

  // Lines are numbered by their first rows.
  std::vector<int32_t> number(count, -1);
  int32_t numbered = 0;
  for (int32_t& line : line_of) {
    int32_t& mine = nth(number, line);
    if (mine < 0) mine = numbered++;
    line = mine;
  }
  Lines lines;
  append_lines(
      line_of, numbered, [&](size_t row) { return rows.row(static_cast<int64_t>(row)); }, lines);
  return lines;
}

Lines pack_sequential(const RowTable& rows, int64_t capacity) {
  Lines lines;
  int64_t tokens = 0;
  for (int64_t i = 0; i < rows.size(); ++i) {
    const Piece row = rows.row(i);
    if (tokens + row.length > capacity && tokens > 0) {
      lines.end_line();
      tokens = 0;
    }
    lines.pieces.push_back(row);
    tokens += row.length;
  }
  if (tokens > 0) lines.end_line();
  return lines;
}

}  // namespace spillway::data
