#include "data/packing/best_fit.h"

#include <bit>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"

namespace spillway::data {
namespace {

constexpr int32_t kNobody = -1;
constexpr int64_t kPiecesPerReport = int64_t{1} << 18;

}  // namespace

NextSet::NextSet(int64_t size) {
  do {
    size = div_ceil(size, 64);
    levels_.push_back(make_vector<uint64_t>(size));
  } while (size > 1);
}

void NextSet::insert(int64_t value) {
  for (auto& level : levels_) {
    nth(level, value >> 6) |= uint64_t{1} << (value & 63);
    value >>= 6;
  }
}

void NextSet::erase(int64_t value) {
  for (auto& level : levels_) {
    uint64_t& word = nth(level, value >> 6);
    word &= ~(uint64_t{1} << (value & 63));
    if (word != 0) return;
    value >>= 6;
  }
}

int64_t NextSet::next(int64_t value) const {
  for (size_t level = 0; level < levels_.size(); ++level) {
    const auto index = static_cast<size_t>(value >> 6);
    if (index >= levels_[level].size()) return -1;
    const uint64_t rest = levels_[level][index] >> (value & 63);
    if (rest == 0) {
      value = (value >> 6) + 1;
      continue;
    }
    value += std::countr_zero(rest);
    while (level > 0) {
      --level;
      value = (value << 6) + std::countr_zero(nth(levels_[level], value));
    }
    return value;
  }
  return -1;
}

BestFitPacker::BestFitPacker(int64_t capacity)
    : capacity_(capacity),
      rooms_(capacity + 1),
      first_(make_vector<int32_t>(capacity, kNobody)),
      last_(make_vector<int32_t>(capacity, kNobody)) {
  SPILLWAY_CHECK(capacity >= 1 && capacity < (int64_t{1} << 31), "lines of {} tokens", capacity);
  rooms_.insert(capacity);
}

void BestFitPacker::wait(int32_t line, int64_t room) {
  int32_t &first = nth(first_, room), &last = nth(last_, room);
  nth(behind_, line) = kNobody;
  if (first == kNobody) {
    first = line;
    rooms_.insert(room);
  } else {
    nth(behind_, last) = line;
  }
  last = line;
}

int32_t BestFitPacker::take(int64_t room) {
  int32_t& first = nth(first_, room);
  const int32_t line = first;
  first = nth(behind_, line);
  if (first == kNobody) rooms_.erase(room);
  return line;
}

void BestFitPacker::forget_waiting() {
  for (int64_t room = rooms_.next(0); room < capacity_; room = rooms_.next(room + 1)) {
    nth(first_, room) = kNobody;
    rooms_.erase(room);
  }
  behind_.clear();
}

void BestFitPacker::pack(std::span<const Piece> sequences, Lines& lines, const std::function<void(int64_t)>& progress) {
  SPILLWAY_CHECK(sequences.size() < (size_t{1} << 31), "{} sequences at once", sequences.size());
  by_length_.sort(sequences.size(), [&](size_t i) { return sequences[i].length; });
  line_of_.resize(sequences.size());
  for (size_t i = 0; i < by_length_.size(); ++i) {
    const int64_t length = by_length_.length(i);
    int64_t room = rooms_.next(length);
    int32_t line = 0;
    if (room < capacity_) {
      line = take(room);
    } else {
      line = static_cast<int32_t>(behind_.size());
      behind_.push_back(kNobody);
    }
    line_of_[i] = line;
    room -= length;
    if (room > 0) wait(line, room);
    if (progress && static_cast<int64_t>(i + 1) % kPiecesPerReport == 0) progress(static_cast<int64_t>(i + 1));
  }
  const auto piece = [&](size_t i) { return sequences[by_length_.index(i)]; };
  append_lines(line_of_, std::ssize(behind_), piece, lines);
  forget_waiting();
}

}  // namespace spillway::data
