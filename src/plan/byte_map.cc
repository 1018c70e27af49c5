#include "plan/byte_map.h"

#include <iterator>

namespace spillway {

void ByteMap::split(int64_t offset) {
  auto after = segments_.upper_bound(offset);
  if (after == segments_.begin()) return;
  const auto segment = std::prev(after);
  if (segment->first == offset || segment->second.end <= offset) return;
  Segment tail = segment->second;
  segment->second.end = offset;
  segments_.emplace(offset, std::move(tail));
}

ByteMap::Found ByteMap::read(int64_t offset, int64_t bytes, ValueId value, int32_t instruction) {
  Found found;
  if (bytes == 0) return found;
  const int64_t end = offset + bytes;
  split(offset);
  split(end);
  int64_t reached = offset;
  for (auto it = segments_.lower_bound(offset); it != segments_.end() && it->first < end; ++it) {
    Segment& segment = it->second;
    if (it->first != reached || segment.value != value || segment.value_start != offset) {
      found.whole = false;
      if (segment.value != value) found.instead = segment.value;
    }
    reached = segment.end;
    if (segment.writer != kNone) found.writers.push_back(segment.writer);
    if (instruction != kNone) segment.readers.push_back(instruction);
  }
  found.whole = found.whole && reached == end;
  return found;
}

bool ByteMap::write(int64_t offset, int64_t bytes, ValueId value, int32_t instruction) {
  if (bytes == 0) return false;
  const int64_t end = offset + bytes;
  split(offset);
  split(end);
  bool held = false;
  for (auto it = segments_.lower_bound(offset); it != segments_.end() && it->first < end;) {
    held = held || it->second.value != kNone;
    it = segments_.erase(it);
  }
  segments_.emplace(offset, Segment{end, value, offset, instruction, {}});
  return held;
}

std::vector<int32_t> ByteMap::accesses(int64_t offset, int64_t bytes) const {
  std::vector<int32_t> result;
  auto it = segments_.upper_bound(offset);
  if (it != segments_.begin()) --it;
  for (; it != segments_.end() && it->first < offset + bytes; ++it) {
    if (it->second.end <= offset) continue;
    if (it->second.writer != kNone) result.push_back(it->second.writer);
    result.insert(result.end(), it->second.readers.begin(), it->second.readers.end());
  }
  return result;
}

void ByteMap::forget_accesses() {
  for (auto& [offset, segment] : segments_) {
    segment.writer = kNone;
    segment.readers.clear();
  }
}

}  // namespace spillway
