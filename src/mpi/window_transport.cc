#include "mpi/window_transport.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <thread>

#include "base/index.h"
#include "dist/rank_errors.h"
#include "mpi/mpi_call.h"
#include "mpi/shared_count.h"

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostSlotBytes = int64_t{1} << 20, kLeastSlotBytes = int64_t{64} << 10;
// The windows of all ranks of a host have at most so much, where slots are not at their least: /dev/shm has 64 MiB in a
// container, and MPI takes some of it.
constexpr int64_t kMostBytes = int64_t{32} << 20;
constexpr int64_t kControlBytes = 4096, kLineBytes = 64;
constexpr double kPeekSeconds = 0.1;  // how often a rank that waits looks whether the other still lives
constexpr std::chrono::seconds kTimeToBeEnded{5};

// The beginning of a rank's window; its two slots follow. Call n stages in slot n mod 2: when a rank stages there
// again, all others have staged for call n + 1, and so have done with n.
struct Control {
  alignas(kLineBytes) SharedCount staged;  // calls whose piece is in its slot
  alignas(kLineBytes) pid_t process = 0;
  std::atomic<bool> is_said{false};  // of rank 0's window: a rank has thrown what ends the job
};
static_assert(sizeof(Control) <= kControlBytes);

int64_t slot_bytes(int ranks) {
  const int64_t share = kMostBytes / (2 * ranks) / kControlBytes * kControlBytes;
  return std::clamp(share, kLeastSlotBytes, kMostSlotBytes);
}

// Throws on all ranks unless there is room for `bytes` in memory that processes of this host share.
void check_room(MPI_Comm comm, int rank, int64_t bytes) {
  int64_t free = bytes;
  struct statvfs found {};
  if (rank == 0 && ::statvfs("/dev/shm", &found) == 0)
    free = static_cast<int64_t>(found.f_bavail) * static_cast<int64_t>(found.f_frsize);
  check_mpi(MPI_Bcast(&free, 1, MPI_INT64_T, 0, comm), "a broadcast");
  if (free < bytes)
    throw machine_error("/dev/shm",
                        "expected {} MiB of shared memory for the ranks, got {} MiB; enlarge it (of a "
                        "container: --shm-size 1g)",
                        bytes >> 20, free >> 20);
}

class WindowTransport final : public Transport {
 public:
  WindowTransport(MPI_Comm comm, const TransportFacts& facts)
      : facts_(facts), slot_bytes_(slot_bytes(facts.size)), in_(static_cast<size_t>(facts.size)) {
    const int64_t bytes = kControlBytes + 2 * slot_bytes_;
    check_room(comm, facts.rank, facts.size * bytes);
    MPI_Info info = MPI_INFO_NULL;
    check_mpi(MPI_Info_create(&info), "MPI_Info_create");
    check_mpi(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");  // each at a page of its own
    void* mine = nullptr;
    check_mpi(MPI_Win_allocate_shared(bytes, 1, info, comm, static_cast<void*>(&mine), &window_), "a shared window");
    MPI_Info_free(&info);
    (new (mine) Control)->process = ::getpid();
    for (int i = 0; i < facts.size; ++i) {
      MPI_Aint size = 0;
      int unit = 0;
      std::byte* begin = nullptr;
      check_mpi(MPI_Win_shared_query(window_, i, &size, &unit, static_cast<void*>(&begin)), "MPI_Win_shared_query");
      windows_.push_back(begin);
    }
    check_mpi(MPI_Barrier(comm), "a barrier");  // all controls are made
    for (int i = 0; i < facts.size; ++i) sees_processes_ = sees_processes_ && is_alive(i);
  }
  ~WindowTransport() override { MPI_Win_free(&window_); }

  [[nodiscard]] int64_t max_piece_bytes() const override { return slot_bytes_ / facts_.size / kLineBytes * kLineBytes; }
  [[nodiscard]] int64_t max_common_bytes() const override { return slot_bytes_; }

  std::span<const std::byte* const> all_to_all(std::span<const Bytes> out, std::span<const int64_t>) override {
    std::byte* const slot = begin();
    for (int i = 0; i < facts_.size; ++i) {
      const Bytes bytes = nth(out, i);
      if (i != facts_.rank && !bytes.empty()) std::memcpy(slot + i * max_piece_bytes(), bytes.data(), bytes.size());
    }
    return share(facts_.rank * max_piece_bytes());
  }

  std::span<const std::byte* const> all_gather(Bytes mine, std::span<const int64_t>, RankGroup) override {
    std::byte* const slot = begin();
    if (!mine.empty()) std::memcpy(slot, mine.data(), mine.size());
    return share(0);
  }

 private:
  [[nodiscard]] Control& control(int rank) const {
    return *std::launder(reinterpret_cast<Control*>(nth(windows_, rank)));
  }
  [[nodiscard]] std::byte* slot(int rank) const {
    return nth(windows_, rank) + kControlBytes + (calls_ % 2) * slot_bytes_;
  }

  // Begins a call, and returns this rank's slot for it.
  std::byte* begin() {
    ++calls_;
    return slot(facts_.rank);
  }

  // Returns where the pieces of all ranks are, `offset` bytes from the beginning of their slots.
  std::span<const std::byte* const> share(int64_t offset) {
    control(facts_.rank).staged.raise_to(calls_);
    for (int i = 0; i < facts_.size; ++i) {
      wait_for(i, control(i).staged, calls_);
      nth(in_, i) = slot(i) + offset;
    }
    return in_;
  }

  void wait_for(int rank, SharedCount& count, uint32_t reached) {
    if (count.has_reached(reached)) return;
    const auto deadline = Clock::now() + std::chrono::duration<double>(facts_.timeout_seconds);
    while (!count.wait_for(reached, std::min(kPeekSeconds, facts_.timeout_seconds))) {
      if (sees_processes_ && !is_alive(rank) && !count.has_reached(reached)) fail(ended_rank(rank, host(rank)));
      if (Clock::now() >= deadline) fail(silent_rank(rank, host(rank), facts_.timeout_seconds));
    }
  }

  [[nodiscard]] bool is_alive(int rank) const { return ::kill(control(rank).process, 0) == 0 || errno == EPERM; }
  [[nodiscard]] const std::string& host(int rank) const { return nth(facts_.hosts, rank); }

  [[noreturn]] void fail(const MachineError& error) {
    if (control(0).is_said.exchange(true)) std::this_thread::sleep_for(kTimeToBeEnded);
    throw error;
  }

  const TransportFacts& facts_;
  int64_t slot_bytes_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<std::byte*> windows_;  // by rank
  std::vector<const std::byte*> in_;
  uint32_t calls_ = 0;
  bool sees_processes_ = true;  // those of all ranks: in containers, they may not
};

}  // namespace

std::unique_ptr<Transport> window_transport(MPI_Comm comm, const TransportFacts& facts) {
  return std::make_unique<WindowTransport>(comm, facts);
}

}  // namespace spillway
