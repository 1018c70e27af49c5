// Records the content of every byte of an arena for the verifier: which part of which value, its writer and its
// readers.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "graph/graph.h"

namespace spillway {

class ByteMap {
 public:
  struct Found {
    bool whole = true;        // all bytes hold the value, each at its own distance from the start
    ValueId instead = kNone;  // if not whole: the value that some of them hold instead
    std::vector<int32_t> writers;
  };

  // Reads the bytes as `value` and remembers the read. Instructions are given by index, kNone for the host.
  Found read(int64_t offset, int64_t bytes, ValueId value, int32_t instruction);
  // Writes `value` to the bytes. Returns true if any of them held a value before.
  bool write(int64_t offset, int64_t bytes, ValueId value, int32_t instruction);
  // Returns all instructions that have written or read any of these bytes since they were last overwritten.
  [[nodiscard]] std::vector<int32_t> accesses(int64_t offset, int64_t bytes) const;
  // Forgets accesses and keeps contents: called when a section has ended.
  void forget_accesses();
  void clear() { segments_.clear(); }

 private:
  struct Segment {
    int64_t end = 0;
    ValueId value = kNone;
    int64_t value_start = 0;  // the offset at which the value begins
    int32_t writer = kNone;
    std::vector<int32_t> readers;
  };

  // Splits the segment that contains `offset`, so that one begins there.
  void split(int64_t offset);

  std::map<int64_t, Segment> segments_;  // by first byte; they do not overlap
};

}  // namespace spillway
