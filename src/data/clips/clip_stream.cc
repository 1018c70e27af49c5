#include "data/clips/clip_stream.h"

#include <numeric>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/sizes.h"
#include "data/shuffled.h"

namespace spillway::data {

std::vector<int64_t> order_of_epoch(int64_t rows, RowOrder order, uint64_t seed, int64_t epoch) {
  constexpr uint64_t kClipStream = 0x636C69700000;  // independent of other shuffles
  if (order != RowOrder::kFile) return shuffled(rows, seed, kClipStream + static_cast<uint64_t>(epoch));
  auto items = make_vector<int64_t>(rows);
  std::iota(items.begin(), items.end(), 0);
  return items;
}

ClipStream::ClipStream(std::shared_ptr<const ClipRows> rows, FlowOptions options, ClipTurns turns, int64_t in_flight)
    : rows_(std::move(rows)),
      options_(std::move(options)),
      table_(make_flow_table(options_.flow_shift)),
      turns_(std::move(turns)),
      in_flight_(static_cast<size_t>(in_flight)) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw machine_error("threads", "expected to start one, got \"{}\"; raise the limit on threads (ulimit -u)",
                        error.what());
  }
}

ClipStream::~ClipStream() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::optional<ClipSample> ClipStream::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !waiting_.empty(); });
  Item& item = waiting_.front();
  if (item.error) std::rethrow_exception(item.error);
  if (!item.sample) return {};  // the end, which stays
  std::optional<ClipSample> sample = std::move(item.sample);
  waiting_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return sample;
}

bool ClipStream::wait_for_room() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stop_ || waiting_.size() < in_flight_; });
  return !stop_;
}

void ClipStream::put(Item item) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(item));
  }
  changed_.notify_all();
}

void ClipStream::run() {
  try {
    while (wait_for_room()) {
      const std::optional<ClipTurn> turn = turns_();
      if (!turn) return put({});
      put({.sample = prepare_sample(rows_->read(turn->row), turn->row, options_, table_, turn->sample, turn->timestep),
           .error = {}});
    }
  } catch (...) {
    put({.sample = {}, .error = std::current_exception()});
  }
}

}  // namespace spillway::data
