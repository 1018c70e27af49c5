// A sorted list of keys with a number each, in runs of bounded length: what comes or goes moves no more than its run,
// where in one array it would move all that follow. For a few hundred keys it is as fast as the array.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spillway {

class SortedRuns {
 public:
  struct Position {
    size_t run = 0, index = 0;  // in that run; at the end of all keys: the number of runs, 0

    friend bool operator==(const Position&, const Position&) = default;
  };

  // Takes these keys, sorted, each numbered by its place among them.
  void assign(std::span<const int64_t> keys) {
    runs_.clear();
    firsts_.clear();
    constexpr size_t kHalf = kLongest / 2;  // room for more
    for (size_t first = 0; first < keys.size(); first += kHalf) {
      firsts_.push_back(keys[first]);
      Run& run = runs_.emplace_back();
      for (size_t i = first; i < std::min(keys.size(), first + kHalf); ++i) {
        run.keys.push_back(keys[i]);
        run.numbers.push_back(static_cast<int32_t>(i));
      }
    }
  }

  [[nodiscard]] Position end() const { return {runs_.size(), 0}; }
  [[nodiscard]] int64_t key(Position at) const { return runs_[at.run].keys[at.index]; }
  [[nodiscard]] int32_t number(Position at) const { return runs_[at.run].numbers[at.index]; }

  // Returns the position of the first key that is no less than `key`.
  [[nodiscard]] Position lower_bound(int64_t key) const {
    const auto above = std::lower_bound(firsts_.begin(), firsts_.end(), key);
    if (above == firsts_.begin()) return {0, 0};
    const auto run = static_cast<size_t>(above - firsts_.begin()) - 1;
    const std::vector<int64_t>& keys = runs_[run].keys;
    return normal({run, static_cast<size_t>(std::lower_bound(keys.begin(), keys.end(), key) - keys.begin())});
  }
  [[nodiscard]] Position next(Position at) const { return normal({at.run, at.index + 1}); }
  // REQUIRES: `at` is not the first.
  [[nodiscard]] Position previous(Position at) const {
    return at.index > 0 ? Position{at.run, at.index - 1} : Position{at.run - 1, runs_[at.run - 1].keys.size() - 1};
  }

  // Inserts a key before `at`. Returns its position; those behind it change.
  Position insert(Position at, int64_t key, int32_t number) {
    if (at.index == 0 && at.run > 0) at = {at.run - 1, runs_[at.run - 1].keys.size()};
    if (runs_.empty()) {
      runs_.emplace_back();
      firsts_.push_back(key);
    }
    if (runs_[at.run].keys.size() == kLongest) at = halve(at);
    if (at.index == 0) firsts_[at.run] = key;
    Run& run = runs_[at.run];
    run.keys.insert(run.keys.begin() + offset(at), key);
    run.numbers.insert(run.numbers.begin() + offset(at), number);
    return at;
  }

  // Removes the key at a position. Returns the position of the next one.
  Position erase(Position at) {
    Run& run = runs_[at.run];
    run.keys.erase(run.keys.begin() + offset(at));
    run.numbers.erase(run.numbers.begin() + offset(at));
    if (!run.keys.empty()) {
      firsts_[at.run] = run.keys[0];
      return normal(at);
    }
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(at.run));
    firsts_.erase(firsts_.begin() + static_cast<std::ptrdiff_t>(at.run));
    return {at.run, 0};
  }

 private:
  static constexpr size_t kLongest = 256;

  struct Run {
    std::vector<int64_t> keys;  // never empty
    std::vector<int32_t> numbers;
  };

  static std::ptrdiff_t offset(Position at) { return static_cast<std::ptrdiff_t>(at.index); }
  [[nodiscard]] Position normal(Position at) const {
    return at.index < runs_[at.run].keys.size() ? at : Position{at.run + 1, 0};
  }
  // Makes two runs of one. Returns where `at` is then.
  Position halve(Position at) {
    constexpr auto kHalf = static_cast<std::ptrdiff_t>(kLongest / 2);
    Run& run = runs_[at.run];
    Run upper{{run.keys.begin() + kHalf, run.keys.end()}, {run.numbers.begin() + kHalf, run.numbers.end()}};
    run.keys.resize(kLongest / 2);
    run.numbers.resize(kLongest / 2);
    firsts_.insert(firsts_.begin() + static_cast<std::ptrdiff_t>(at.run) + 1, upper.keys[0]);
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(at.run) + 1, std::move(upper));
    return at.index <= kLongest / 2 ? at : Position{at.run + 1, at.index - kLongest / 2};
  }

  std::vector<Run> runs_;
  std::vector<int64_t> firsts_;  // by run: its first key
};

}  // namespace spillway
