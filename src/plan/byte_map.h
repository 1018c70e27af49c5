// What every byte of an arena holds, for the verifier: which part of which value, who wrote it and who has read it.
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
    ValueId instead = kNone;  // what some of them hold, where not
    std::vector<int32_t> writers;
  };

  // Instructions are by index, kNone for the host. A read is remembered with the bytes.
  Found read(int64_t offset, int64_t bytes, ValueId value, int32_t instruction);
  // Returns whether any of the bytes held a value before.
  bool write(int64_t offset, int64_t bytes, ValueId value, int32_t instruction);
  // All that have written or read any of these bytes since they were last written over.
  [[nodiscard]] std::vector<int32_t> accesses(int64_t offset, int64_t bytes) const;
  // Contents stay, accesses are forgotten: a section has ended.
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
