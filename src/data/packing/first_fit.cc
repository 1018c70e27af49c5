#include "data/packing/first_fit.h"

#include <algorithm>
#include <numeric>

#include "base/math.h"

namespace spillway::data {
namespace {

// The room of each line, in a tree of maxima that finds the first line with room in log time.
class FirstFitRooms {
 public:
  FirstFitRooms(int64_t most_lines, int64_t capacity) {
    while (leaves_ < static_cast<size_t>(most_lines)) leaves_ *= 2;
    room_.assign(2 * leaves_, narrow<int32_t>(capacity));
  }

  // The line that takes so many tokens.
  int32_t add(int32_t tokens) {
    size_t node = 1;
    while (node < leaves_) node = room_[2 * node] >= tokens ? 2 * node : 2 * node + 1;
    const auto line = narrow<int32_t>(node - leaves_);
    room_[node] -= tokens;
    for (node /= 2; node >= 1; node /= 2) room_[node] = std::max(room_[2 * node], room_[2 * node + 1]);
    return line;
  }

 private:
  size_t leaves_ = 1;
  std::vector<int32_t> room_;  // heap-shaped; the leaves are the lines
};

}  // namespace

Lines pack_first_fit(const RowTable& rows, int64_t capacity) {
  std::vector<int64_t> by_length(static_cast<size_t>(rows.size()));
  std::iota(by_length.begin(), by_length.end(), 0);
  std::stable_sort(by_length.begin(), by_length.end(),
                   [&](int64_t a, int64_t b) { return rows.length(a) > rows.length(b); });
  FirstFitRooms rooms(rows.size(), capacity);
  std::vector<int32_t> line_of(by_length.size());
  for (const int64_t row : by_length) line_of[static_cast<size_t>(row)] = rooms.add(rows.length(row));

  // Lines are numbered by their first rows.
  std::vector<int32_t> number(by_length.size(), -1);
  int32_t count = 0;
  for (int32_t& line : line_of) {
    int32_t& mine = number[static_cast<size_t>(line)];
    if (mine < 0) mine = count++;
    line = mine;
  }
  Lines lines;
  append_lines(
      line_of, count, [&](size_t row) { return rows.row(static_cast<int64_t>(row)); }, lines);
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
