// Samples that a separate thread reads, checks and prepares ahead of need.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/batch.h"
#include "data/clips/clip_rows.h"
#include "data/clips/clip_sample.h"

namespace spillway::data {

// Returns the rows of an epoch: in file order, or shuffled for any other `order`, differently in each epoch. A pure
// function.
[[nodiscard]] std::vector<int64_t> order_of_epoch(int64_t rows, RowOrder order, uint64_t seed, int64_t epoch);

// A use of a row in the run.
struct ClipTurn {
  int64_t row = 0, sample = 0;
  std::optional<float> timestep;  // in the place of a drawn one, as prepare_sample() has it
};
// Returns the next turn, nothing at the end. Called from the stream's thread.
using ClipTurns = std::function<std::optional<ClipTurn>()>;

class ClipStream {
 public:
  // Holds at most `in_flight` samples: those that wait, and the one that is being prepared. Takes the memory of that
  // many of the largest sample, and that of ClipRows::read(). REQUIRES: check_flow_options() has passed; in_flight >=
  // 1. Throws MachineError if the system cannot start a thread.
  ClipStream(std::shared_ptr<const ClipRows> rows, FlowOptions options, ClipTurns turns, int64_t in_flight);
  // Waits for the sample that is being prepared.
  ~ClipStream();
  ClipStream(ClipStream&&) = delete;

  // Waits for the next sample; returns nothing after the last. Throws the error of reading it once the samples before
  // it are taken, and again in later calls. Not thread-safe.
  [[nodiscard]] std::optional<ClipSample> next();

 private:
  struct Item {
    std::optional<ClipSample> sample;
    std::exception_ptr error;
  };

  void run();
  // Returns false if the stream is to end.
  [[nodiscard]] bool wait_for_room();
  void put(Item item);

  std::shared_ptr<const ClipRows> rows_;
  FlowOptions options_;
  FlowTable table_;
  ClipTurns turns_;
  size_t in_flight_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> waiting_;
  bool stop_ = false;
  std::thread thread_;  // the last member: it sees the others ready
};

}  // namespace spillway::data
