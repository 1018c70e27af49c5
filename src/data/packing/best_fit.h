// Best fit decreasing with TRL's tie-breaking: the longest first, equal lengths in their order; each goes into the line
// with the least sufficient room, among equal ones into the one that has had that room for the longest time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/packing/lines.h"

namespace spillway::data {

// A set of integers in [0, size) that finds the next element in a few steps: a tree of 64-bit words, in which each bit
// says whether the word below it has any bits.
class NextSet {
 public:
  explicit NextSet(int64_t size);
  void insert(int64_t value);
  void erase(int64_t value);
  // Returns the least element >= value; -1 if there is none.
  [[nodiscard]] int64_t next(int64_t value) const;

 private:
  std::vector<std::vector<uint64_t>> levels_;  // the leaves first
};

// Keeps its memory between calls. Not thread-safe.
class BestFitPacker {
 public:
  // REQUIRES: 1 <= capacity < 2^31.
  explicit BestFitPacker(int64_t capacity);

  // Appends the lines, in the order in which they were begun. Calls `progress` now and then with the number of pieces
  // that have a line. REQUIRES: each piece is a sequence of 1 to `capacity` tokens; fewer than 2^31 of them.
  void pack(std::span<const Piece> sequences, Lines& lines, const std::function<void(int64_t)>& progress = {});

 private:
  // Lines with `room` free tokens wait in a queue of their own.
  void wait(int32_t line, int64_t room);
  int32_t take(int64_t room);
  void forget_waiting();

  int64_t capacity_;
  NextSet rooms_;                      // with a line waiting; and `capacity`, that of a new line
  std::vector<int32_t> first_, last_;  // [capacity] the queue of each room
  std::vector<int32_t> behind_;        // [lines] the next in the same queue
  LongestFirst by_length_;             // sequences in the order of packing
  std::vector<int32_t> line_of_;       // [sequences] in that order
};

}  // namespace spillway::data
