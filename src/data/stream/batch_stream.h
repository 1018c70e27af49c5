// Micro-batches out of a RowStream that a thread of its own fills ahead of need.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "data/stream/row_stream.h"

namespace spillway::data {

class BatchStream {
 public:
  // Begins with the line of `from`. At most `ahead` micro-batches wait; beyond those the stream holds a block and the
  // one behind it, its shuffle buffer, and the records that are being tokenised.
  BatchStream(std::shared_ptr<const StreamSource> source, const StreamPosition& from, int64_t ahead);
  // Soon done, wherever the stream is.
  ~BatchStream();
  BatchStream(BatchStream&&) = delete;

  // Waits for the next one: options().batches.rows lines, across blocks and epochs. Throws what reading threw, once
  // what was read before it is taken.
  [[nodiscard]] MicroBatch next();
  // Where the micro-batch that comes next begins. Both are for one thread.
  [[nodiscard]] const StreamPosition& position() const { return position_; }

 private:
  struct Item {
    MicroBatch batch;
    StreamPosition end;  // where the one behind it begins
    std::exception_ptr error;
  };

  void run();
  void read_blocks();
  // Throws InputError where the block that the stream begins in has other rows than it had.
  void check_seen(const RowBlock& block, std::string_view checksum) const;
  // False where the stream is to end.
  [[nodiscard]] bool put(Item item);

  std::shared_ptr<const StreamSource> source_;
  StreamPosition from_, position_;
  size_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> waiting_;
  std::atomic<bool> stop_ = false;  // set under the mutex
  std::thread thread_;              // the last member: it sees the others ready
};

}  // namespace spillway::data
