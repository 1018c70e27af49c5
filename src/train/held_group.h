// The micro-batches that a run of a plan computes together, as a feed gives them out one after another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/session.h"

namespace spillway::train {

// Allocates only to grow, and copies nothing where a run computes one micro-batch. Not thread-safe.
class HeldGroup {
 public:
  // Begins a group of at most `most` micro-batches. `copies`: also one alone, which the feed does not keep.
  void begin(int64_t most, bool copies = false);
  [[nodiscard]] bool is_full() const { return std::ssize(streams_) == most_; }
  // Adds the streams of a micro-batch. A feed keeps those of one: with several in a group they are copied. REQUIRES:
  // the group is not full.
  void add(std::span<const data::MicroBatch> streams);

  [[nodiscard]] size_t size() const { return streams_.size(); }
  [[nodiscard]] std::span<const data::MicroBatch> operator[](size_t index) const { return streams_[index]; }
  // Returns views of all, for the session.
  [[nodiscard]] std::span<const BatchStreams> views() const { return views_; }

 private:
  int64_t most_ = 1;
  bool copies_ = false;
  std::vector<std::span<const data::MicroBatch>> streams_;
  std::vector<BatchStreams> views_;
  std::vector<std::vector<data::MicroBatch>> room_;
};

}  // namespace spillway::train
