// Micro-batches from a RowStream that a separate thread fills ahead of need.
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
  // Begins with the line of `from`. At most `ahead` micro-batches wait; in addition the stream holds a block and the
  // next one, its shuffle buffer, and the records that are being tokenised.
  BatchStream(std::shared_ptr<const StreamSource> source, const StreamPosition& from, int64_t ahead);
  // Ends the thread soon, wherever the stream is.
  ~BatchStream();
  BatchStream(BatchStream&&) = delete;

  // Waits for the next micro-batch: options().batches.rows lines, across blocks and epochs. Throws the errors of
  // reading once everything read before is taken. Not thread-safe.
  [[nodiscard]] MicroBatch next();
  // Returns where the next micro-batch begins.
  [[nodiscard]] const StreamPosition& position() const { return position_; }

 private:
  struct Item {
    MicroBatch batch;
    StreamPosition end;  // where the one behind it begins
    std::exception_ptr error;
  };

  void run();
  void read_blocks();
  // Throws InputError if the block that the stream begins in does not have the rows that it had.
  void check_seen(const RowBlock& block, std::string_view checksum) const;
  // Returns false if the stream is to end.
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
