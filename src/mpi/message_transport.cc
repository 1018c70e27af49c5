#include "mpi/message_transport.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/index.h"
#include "dist/rank_errors.h"
#include "mpi/mpi_call.h"

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPieceBytes = int64_t{1} << 20;
// MPI has no thread of its own: messages move while somebody tests for them. A test that finds nothing gives the core
// to others at first, then sleeps for longer and longer.
constexpr int kYields = 50;
constexpr std::chrono::microseconds kFirstSleep{20}, kLongestSleep{500};

class MessageTransport final : public Transport {
 public:
  MessageTransport(MPI_Comm comm, const TransportFacts& facts, std::timed_mutex& mutex)
      : comm_(comm),
        facts_(facts),
        mutex_(mutex),
        received_(static_cast<size_t>(facts.size)),
        in_(received_.size()),
        requests_(2 * received_.size(), MPI_REQUEST_NULL) {}

  [[nodiscard]] int64_t max_piece_bytes() const override { return kPieceBytes; }
  [[nodiscard]] int64_t max_common_bytes() const override { return kPieceBytes; }

  std::span<const std::byte* const> all_to_all(std::span<const Bytes> out, std::span<const int64_t> in_bytes) override {
    begin([&](int rank) { return nth(out, rank); }, in_bytes);
    return finish();
  }

  std::span<const std::byte* const> all_gather(Bytes mine, std::span<const int64_t> in_bytes,
                                               RankGroup group) override {
    const auto is_of_group = [&](int rank) { return rank >= group.first && rank < group.first + group.size; };
    begin([&](int rank) { return is_of_group(rank) ? mine : Bytes(); }, in_bytes);
    return finish();
  }

 private:
  template <typename OutFor>
  void begin(const OutFor& out_for, std::span<const int64_t> in_bytes) {
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < facts_.size; ++i) {
      if (i == facts_.rank) continue;
      const auto bytes = static_cast<size_t>(nth(in_bytes, i));
      std::vector<std::byte>& room = nth(received_, i);
      if (room.size() < bytes) room.resize(bytes);
      nth(in_, i) = room.data();
      if (bytes > 0)
        check_mpi(MPI_Irecv(room.data(), static_cast<int>(bytes), MPI_BYTE, i, 0, comm_, &nth(requests_, i)),
                  "receiving");
    }
    for (int step = 1; step < facts_.size; ++step) {  // not all to the same rank at once
      const int to = (facts_.rank + step) % facts_.size;
      const Bytes bytes = out_for(to);
      if (!bytes.empty())
        check_mpi(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, 0, comm_,
                            &nth(requests_, facts_.size + to)),
                  "sending");
    }
  }

  std::span<const std::byte* const> finish() {
    const auto deadline = Clock::now() + std::chrono::duration<double>(facts_.timeout_seconds);
    auto sleep = kFirstSleep;
    for (int tries = 0;; ++tries) {
      int are_done = 0;
      {
        const std::lock_guard lock(mutex_);
        check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &are_done, MPI_STATUSES_IGNORE),
                  "an exchange");
      }
      if (are_done != 0) return in_;
      if (tries < kYields) {
        ::sched_yield();
        continue;
      }
      if (Clock::now() >= deadline) throw silent();
      std::this_thread::sleep_for(sleep);
      sleep = std::min(sleep * 2, kLongestSleep);
    }
  }

  // The first rank whose message is missing, else the first that takes none.
  [[nodiscard]] MachineError silent() {
    const std::lock_guard lock(mutex_);
    size_t missing = 0;
    for (; missing + 1 < requests_.size(); ++missing) {
      int is_done = 0;
      check_mpi(MPI_Test(&requests_[missing], &is_done, MPI_STATUS_IGNORE), "an exchange");
      if (is_done == 0) break;
    }
    const int rank = static_cast<int>(missing) % facts_.size;
    return silent_rank(rank, nth(facts_.hosts, rank), facts_.timeout_seconds);
  }

  MPI_Comm comm_;
  const TransportFacts& facts_;
  std::timed_mutex& mutex_;
  std::vector<std::vector<std::byte>> received_;  // by rank
  std::vector<const std::byte*> in_;
  std::vector<MPI_Request> requests_;  // by rank: of what it sends, then of what is sent to it
};

}  // namespace

std::unique_ptr<Transport> message_transport(MPI_Comm comm, const TransportFacts& facts, std::timed_mutex& mutex) {
  return std::make_unique<MessageTransport>(comm, facts, mutex);
}

}  // namespace spillway
