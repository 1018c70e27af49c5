#include "backend/testing/simt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/testing/fiber.h"
#include "base/random.h"
#include "base/sizes.h"
#include "tensor/dtype.h"

namespace spillway::simt {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kMaxThreads = 1024;

// Returns the limit of a block: 99 KiB is the least of sm_80, sm_89, sm_90 and sm_100.
size_t max_shared_bytes() { return (compute_capability() == 90 ? size_t{227} : size_t{99}) << 10; }

constexpr size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xA5};

// A point at which all threads of a block, or of a warp, wait for each other.
struct Meeting {
  unsigned arrived = 0;
  int line = 0;
};

// One mma.m16n8k16: the matrices that the words of all lanes are parts of.
class WarpProduct {
 public:
  void give(unsigned lane, const float (&sums)[4], const unsigned (&left)[4], const unsigned (&right)[2]) {
    const unsigned major = lane / 4, minor = lane % 4 * 2;
    for (unsigned half = 0; half < 2; ++half) {
      for (unsigned word = 0; word < 4; ++word) {
        left_[major + word % 2 * 8][minor + half + word / 2 * 8] = element(left[word], half);
      }
      for (unsigned word = 0; word < 2; ++word) right_[minor + half + word * 8][major] = element(right[word], half);
    }
    for (unsigned i = 0; i < 4; ++i) sums_[major + i / 2 * 8][minor + i % 2] = sums[i];
  }
  void compute() {
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < 16; ++k) {
        for (int column = 0; column < 8; ++column) sums_[row][column] += left_[row][k] * right_[k][column];
      }
    }
  }
  void take(unsigned lane, float (&sums)[4]) const {
    for (unsigned i = 0; i < 4; ++i) sums[i] = sums_[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }

 private:
  static float element(unsigned word, unsigned half) {
    return to_float(bf16{static_cast<uint16_t>(word >> 16 * half)});
  }

  float left_[16][16], right_[16][8], sums_[16][8];
};

struct Warp {
  Meeting meeting;
  unsigned exchanges = 0;  // a lane is at most one ahead of another, so two sets of slots are enough
  uint64_t slots[2][kWarp] = {};
  WarpProduct products[2];
};

// Runs one launch at a time, one block of it at a time.
class Multiprocessor {
 public:
  void run(const cudaLaunchConfig_t& config, const std::function<void()>& thread);

  void block_barrier(int line) { meet(block_, threads_, 0, threads_, line); }
  const uint64_t* exchange(uint64_t given, unsigned mask, int line) {
    if (mask != 0xFFFFFFFF) fail("an exchange of part of a warp");
    Warp& warp = warps_[running_ / kWarp];
    uint64_t* slots = warp.slots[warp.exchanges % 2];
    slots[running_ % kWarp] = given;
    if (meet(warp.meeting, kWarp, running_ / kWarp * kWarp, kWarp, line)) ++warp.exchanges;
    return slots;
  }
  [[noreturn]] void fail(std::string_view what) {
    note(what);
    abandon();
  }

  // The last lane to come computes for all.
  void multiply_add(float (&sums)[4], const unsigned (&left)[4], const unsigned (&right)[2], int line) {
    Warp& warp = warps_[running_ / kWarp];
    WarpProduct& product = warp.products[warp.exchanges % 2];
    const unsigned lane = running_ % kWarp;
    product.give(lane, sums, left, right);
    if (meet(warp.meeting, kWarp, running_ / kWarp * kWarp, kWarp, line)) {
      ++warp.exchanges;
      product.compute();
    }
    product.take(lane, sums);
  }
  void start_copy(void* to, const void* from, int size, int bytes) {
    const auto step = static_cast<uintptr_t>(size);
    if (reinterpret_cast<uintptr_t>(to) % step != 0 || reinterpret_cast<uintptr_t>(from) % step != 0) {
      fail("a copy to shared memory from or to an address that is no multiple of its bytes");
    }
    copies_[running_].push_back({to, from, size, bytes, groups_[running_]});
  }
  void commit_copies() { ++groups_[running_]; }
  void wait_for_copies(int pending) {
    std::deque<Copy>& copies = copies_[running_];
    for (; !copies.empty() && copies.front().group + pending < groups_[running_]; copies.pop_front()) {
      const auto& [to, from, size, bytes, group] = copies.front();
      fill_memory(to, 0, size);
      copy_memory(to, from, bytes);
    }
  }

  [[nodiscard]] std::byte* dynamic_shared() { return shared_.data(); }
  [[nodiscard]] unsigned running() const { return running_; }

  uint64_t seed = 0;

 private:
  struct Copy {
    void* to;
    const void* from;
    int size, bytes;
    int group;
  };

  bool meet(Meeting& meeting, unsigned members, unsigned first, unsigned count, int line);
  void note(std::string_view error) {
    if (error_.empty()) error_ = error;
  }
  // Never returns: objects that the stack still owns here are lost.
  [[noreturn]] void abandon() {
    for (;;) fibers_[running_].suspend();
  }
  void run_block(unsigned index);
  void stop(const std::string& what);
  template <typename T>
  void shuffle(std::vector<T>& order) {
    RandomStream random(seed, launches_++);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
  }

  std::deque<testing::Fiber> fibers_;
  std::vector<bool> ready_, done_;
  std::vector<Warp> warps_;
  Meeting block_;
  std::vector<std::deque<Copy>> copies_;  // of each thread: started and not waited for
  std::vector<int> groups_;               // the number that each thread has committed
  std::vector<std::byte> shared_;
  std::function<void()> thread_;
  unsigned threads_ = 0, running_ = 0;
  uint64_t launches_ = 0;
  std::string error_;
};

Multiprocessor multiprocessor;

// Returns true for the last one to come, who lets the others go on; they wait.
bool Multiprocessor::meet(Meeting& meeting, unsigned members, unsigned first, unsigned count, int line) {
  if (meeting.arrived == 0) meeting.line = line;
  if (meeting.line != line) {
    note(fmt::format("threads meet at lines {} and {}", meeting.line, line));
    abandon();
  }
  if (++meeting.arrived == members) {
    meeting.arrived = 0;
    std::fill_n(ready_.begin() + first, count, true);
    return true;
  }
  ready_[running_] = false;
  fibers_[running_].suspend();
  return false;
}

void Multiprocessor::stop(const std::string& what) {
  fibers_.clear();  // they stand in the middle of a kernel
  error_.clear();
  throw std::logic_error(fmt::format("simt: {}", what));
}

void Multiprocessor::run_block(unsigned index) {
  blockIdx = dim3(index);
  warps_.assign(threads_ / kWarp, {});
  block_ = {};
  ready_.assign(threads_, true);
  done_.assign(threads_, false);
  for (std::deque<Copy>& copies : copies_) copies.clear();
  groups_.assign(threads_, 0);
  std::fill(shared_.begin(), shared_.end() - kGuardBytes, std::byte{0xFF});
  std::vector<unsigned> order(threads_);
  std::iota(order.begin(), order.end(), 0u);
  shuffle(order);
  for (size_t finished = 0; finished < threads_;) {
    bool progress = false;
    for (const unsigned t : order) {
      if (done_[t] || !ready_[t]) continue;
      progress = true;
      running_ = t;
      threadIdx = dim3(t);
      fibers_[t].resume();
      if (!error_.empty()) stop(std::string(error_));
      finished += done_[t] ? 1 : 0;
    }
    if (!progress) {
      stop(fmt::format("{} of {} threads of block {} wait at a barrier that the others never reach",
                       threads_ - finished, threads_, index));
    }
  }
  if (!std::all_of(shared_.end() - kGuardBytes, shared_.end(), [](std::byte b) { return b == kGuard; })) {
    stop("shared memory was written past its end");
  }
}

void Multiprocessor::run(const cudaLaunchConfig_t& config, const std::function<void()>& thread) {
  threads_ = config.blockDim.x;
  if (threads_ == 0 || threads_ % kWarp != 0 || threads_ > kMaxThreads) stop(fmt::format("{} threads", threads_));
  if (config.gridDim.x == 0 || config.gridDim.x > 0x7FFFFFFF) stop(fmt::format("{} blocks", config.gridDim.x));
  if (config.dynamicSmemBytes > max_shared_bytes()) stop(fmt::format("{} bytes shared", config.dynamicSmemBytes));
  gridDim = config.gridDim;
  blockDim = config.blockDim;
  thread_ = thread;
  shared_.assign(config.dynamicSmemBytes + kGuardBytes, kGuard);
  copies_.resize(threads_);
  while (fibers_.size() < threads_) {
    fibers_.emplace_back([this] {
      thread_();
      done_[running_] = true;
    });
  }
  std::vector<unsigned> blocks(config.gridDim.x);
  std::iota(blocks.begin(), blocks.end(), 0u);
  shuffle(blocks);
  for (const unsigned block : blocks) run_block(block);
}

}  // namespace

int compute_capability() {
  static const int capability = [] {
    const char* const said = std::getenv("SPILLWAY_EMULATED_GPU");
    return said == nullptr ? 80 : std::atoi(said);
  }();
  return capability;
}
void set_order(uint64_t seed) { multiprocessor.seed = seed; }
void run(const cudaLaunchConfig_t& config, const std::function<void()>& thread) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  multiprocessor.run(config, thread);
}
std::byte* dynamic_shared() { return multiprocessor.dynamic_shared(); }
void block_barrier(int line) { multiprocessor.block_barrier(line); }
const uint64_t* exchange(uint64_t given, unsigned mask, int line) { return multiprocessor.exchange(given, mask, line); }
unsigned lane() { return multiprocessor.running() % kWarp; }
void fail(std::string_view what) { multiprocessor.fail(what); }
void start_copy(void* shared, const void* global, int size, int bytes) {
  multiprocessor.start_copy(shared, global, size, bytes);
}
void commit_copies() { multiprocessor.commit_copies(); }
void wait_for_copies(int pending) { multiprocessor.wait_for_copies(pending); }

void multiply_add(float (&sums)[4], const unsigned (&left)[4], const unsigned (&right)[2], int line) {
  multiprocessor.multiply_add(sums, left, right, line);
}

void load_matrices(const void* row, bool transposed, unsigned (&words)[4], int line) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) fail("a matrix's row at an address that is no multiple of 16");
  const uint64_t* rows = exchange(reinterpret_cast<uintptr_t>(row), 0xFFFFFFFF, line);
  const auto element = [&](unsigned matrix, unsigned i, unsigned j) {
    return reinterpret_cast<const uint16_t*>(rows[8 * matrix + i])[j];
  };
  const unsigned major = lane() / 4, minor = lane() % 4 * 2;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    const unsigned first = transposed ? element(matrix, minor, major) : element(matrix, major, minor);
    const unsigned second = transposed ? element(matrix, minor + 1, major) : element(matrix, major, minor + 1);
    words[matrix] = first | second << 16;
  }
}

}  // namespace spillway::simt
