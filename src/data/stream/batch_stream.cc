#include "data/stream/batch_stream.h"

#include <algorithm>
#include <future>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace spillway::data {

BatchStream::BatchStream(std::shared_ptr<const StreamSource> source, const StreamPosition& from, int64_t ahead)
    : source_(std::move(source)), from_(from), position_(from), ahead_(static_cast<size_t>(ahead)) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw machine_error("threads", "expected to start one, got \"{}\"; raise the limit on threads (ulimit -u)",
                        error.what());
  }
}

BatchStream::~BatchStream() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

MicroBatch BatchStream::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !waiting_.empty(); });
  if (waiting_.front().error) std::rethrow_exception(waiting_.front().error);
  Item item = std::move(waiting_.front());
  waiting_.pop_front();
  lock.unlock();
  changed_.notify_all();
  position_ = item.end;
  return std::move(item.batch);
}

bool BatchStream::put(Item item) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stop_ || waiting_.size() < ahead_; });
  waiting_.push_back(std::move(item));
  changed_.notify_all();
  return !stop_;
}

void BatchStream::run() {
  try {
    read_blocks();
  } catch (...) {
    (void)put({.batch = {}, .end = {}, .error = std::current_exception()});
  }
}

// With other data, the run would continue in the middle of a block, and see some rows twice and others never.
void BatchStream::check_seen(const RowBlock& block, std::string_view checksum) const {
  if (from_.line > block.lines.size()) {
    throw input_error("datasets",
                      "expected at least the {} lines that the checkpoint has seen of a block, got {}; resume with "
                      "the data that wrote it",
                      from_.line, block.lines.size());
  }
  if (from_.rows_checksum.empty() || from_.rows_checksum == checksum) return;
  throw input_error("datasets",
                    "expected the rows that the checkpoint has seen in block {} of epoch {}, got others; resume with "
                    "the data, tokenizer and template that wrote it, or begin a new run with this folder as base_model "
                    "(lora_model_dir, if it is an adapter)",
                    from_.block, from_.epoch);
}

void BatchStream::read_blocks() {
  RowStream stream(source_, from_, &stop_);
  // The next block is made while the current one is fed, so that training need not wait at a block's end; if the system
  // refuses the thread, it is made when needed.
  const auto make_next = [&stream] {
    return std::async(std::launch::async | std::launch::deferred, [&stream] { return stream.next(); });
  };
  std::future<RowBlock> coming = make_next();
  const int64_t lines_per_batch = source_->options().batches.rows;
  MicroBatch batch;
  int64_t lines = 0;  // of the batch
  for (;;) {
    const RowBlock block = coming.get();
    coming = make_next();
    const bool is_first = block.first.epoch == from_.epoch && block.first.block == from_.block;
    const std::string checksum = block.rows.checksum();
    if (is_first) check_seen(block, checksum);
    for (int64_t line = is_first ? from_.line : 0; line < block.lines.size(); ++line) {
      add_to_micro_batch(batch, block.rows, block.lines.line(line));
      if (++lines < lines_per_batch) continue;
      StreamPosition end = block.first;
      end.line = line + 1;
      end.rows_checksum = checksum;
      if (!put({.batch = std::exchange(batch, {}), .end = end, .error = {}})) return;
      lines = 0;
    }
  }
}

}  // namespace spillway::data
