#include "ops/collectives/cuda/nccl_peers.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "backend/cuda/launch.cuh"
#include "base/error.h"
#include "base/index.h"
#include "dist/fold_groups.h"

namespace spillway::ops {
namespace {

using cuda::Nccl;
using Clock = std::chrono::steady_clock;

constexpr int kThreads = 256;
// Contributions of other ranks are received into so many bytes, in pieces.
constexpr int64_t kStagingBytes = int64_t{32} << 20;
constexpr int64_t kMostPieceElems = int64_t{1} << 20, kLeastPieceElems = 1024;
// A wait gives the core to others at first, then sleeps for longer and longer.
constexpr int kYields = 200;
constexpr std::chrono::microseconds kFirstSleep{10}, kLongestSleep{200};

// The contributions to a part, in the order in which they are added.
struct Contributions {
  const float* own = nullptr;       // of this rank, which is contribution `own_index`
  const float* received = nullptr;  // of the others, each `stride` elements from the one before
  int own_index = 0, count = 0;
  int64_t stride = 0;
};

__global__ void fold_kernel(float* part, Contributions from, int64_t elems) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elems) return;
  float sum = part[i];
  for (int one = 0; one < from.count; ++one)
    sum += one == from.own_index ? from.own[i] : from.received[one * from.stride + i];
  part[i] = sum;
}

class NcclPeers final : public Peers {
 public:
  NcclPeers(const Nccl& nccl, Peers& host, const NcclOptions& options) : nccl_(nccl), host_(host), options_(options) {
    use_gpu();
    const int64_t piece = kStagingBytes / static_cast<int64_t>(sizeof(float)) / size();
    piece_elems_ = std::clamp(piece, kLeastPieceElems, kMostPieceElems);
    void* memory = nullptr;
    cuda::check(cudaMalloc(&memory, static_cast<size_t>(piece_elems_ * size()) * sizeof(float)),
                "memory for what ranks exchange");
    staging_ = static_cast<float*>(memory);
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    connect();
  }

  ~NcclPeers() override {
    cudaSetDevice(options_.gpu);
    leave();
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
    cudaFree(staging_);
  }

  [[nodiscard]] int rank() const override { return host_.rank(); }
  [[nodiscard]] int size() const override { return host_.size(); }
  [[nodiscard]] std::string_view host(int rank) const override { return host_.host(rank); }

  // Exchanges as the ranks of several hosts do by MPI (src/mpi/mpi_peers.cc), piece by piece.
  void fold(std::span<const float> whole, std::span<float> part, const Cut& cut, const FoldOrder& order) override {
    use_gpu();
    if (order.together > 1) return fold_by_groups(whole, part, {cut, order});
    const int group = cut.group_of(rank()), last_group = size() - cut.ranks, contributors = order.contributors;
    for (int64_t at = 0; at < cut.part_elems; at += piece_elems_) {
      // The elements of rank i's part that are in this piece.
      const auto piece = [&](int i) {
        const int64_t begin = std::min(at, cut.count(i)), end = std::min(at + piece_elems_, cut.count(i));
        return whole.subspan(static_cast<size_t>(cut.begin(i) + begin), static_cast<size_t>(end - begin));
      };
      const size_t mine = piece(rank()).size();
      together([&] {
        for (int i = group; i < group + cut.ranks; ++i) {
          if (i == rank()) continue;
          if (rank() < contributors) send(std::as_bytes(piece(i)), i);
          if (i < contributors) receive(received(i - group, mine), i);
        }
      });
      const std::span<float> sum = mine == 0 ? std::span<float>() : part.subspan(static_cast<size_t>(at), mine);
      const auto add = [&] {
        add_in_order(sum, {.own = piece(rank()).data(),
                           .received = staging_,
                           .own_index = rank() - group,
                           .count = std::clamp(contributors - group, 0, cut.ranks),
                           .stride = piece_elems_});
      };
      const int in_group = rank() - group;
      for (int from = 0; from < last_group; from += cut.ranks) {
        if (from == group) add();
        hand_on(sum, from + in_group, from + cut.ranks + in_group, from + 2 * cut.ranks, cut.ranks);
      }
      if (group == last_group) add();
      if (last_group > 0) hand_on(sum, last_group + in_group, in_group, last_group, cut.ranks);
    }
  }

  void gather(std::span<const std::byte> part, std::span<std::byte> whole, const Cut& cut,
              int64_t elem_bytes) override {
    use_gpu();
    const int group = cut.group_of(rank());
    const auto place = [&](int i) {
      return whole.subspan(static_cast<size_t>(cut.begin(i) * elem_bytes),
                           static_cast<size_t>(cut.count(i) * elem_bytes));
    };
    const auto mine = static_cast<size_t>(cut.count(rank()) * elem_bytes);
    if (cut.ranks == size() && cut.part_elems * cut.ranks == cut.elems) {
      together([&] { tried(nccl_.all_gather(part.data(), whole.data(), mine, Nccl::kUint8, comm_, stream_)); });
      return;
    }
    if (mine > 0) copy(place(rank()).data(), part.data(), static_cast<int64_t>(mine));
    together([&] {
      for (int i = group; i < group + cut.ranks; ++i) {
        if (i == rank()) continue;
        send(part.first(mine), i);
        receive(place(i), i);
      }
    });
  }

  void all_to_all(std::span<const std::byte> from, std::span<std::byte> to, int ranks) override {
    use_gpu();
    const int group = rank() - rank() % ranks;
    const size_t piece = from.size() / static_cast<size_t>(ranks);
    const auto place = [&](int i) { return static_cast<size_t>(i - group) * piece; };
    if (piece == 0) return;
    copy(to.data() + place(rank()), from.data() + place(rank()), static_cast<int64_t>(piece));
    together([&] {
      for (int i = group; i < group + ranks; ++i) {
        if (i == rank()) continue;
        send(from.subspan(place(i), piece), i);
        receive(to.subspan(place(i), piece), i);
      }
    });
  }

  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    use_gpu();
    cuda::copy_bytes(from, to, bytes, stream_);
  }
  void clear(std::byte* to, int64_t bytes) override {
    use_gpu();
    cuda::zero_bytes(to, bytes, stream_);
  }

  void finish() override {
    use_gpu();
    await("an exchange", [&] {
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state != cudaErrorNotReady) cuda::check(state, "an exchange of GPUs to succeed");
      return state == cudaSuccess;
    });
  }

  std::span<const std::string> exchange(std::string_view mine) override { return host_.exchange(mine); }
  [[noreturn]] void abort(int status) override {
    host_.abort(status);
    std::terminate();  // nvcc does not know that it never comes here
  }

 private:
  void use_gpu() const { cuda::check(cudaSetDevice(options_.gpu), "the GPU"); }

  // Rank 0's identity of the communicator goes to all by the host's peers.
  void connect() {
    cuda::NcclId id{};
    if (rank() == 0) tried(nccl_.get_unique_id(&id));
    const std::string text = host_.exchange(std::string_view(id.bytes, sizeof(id.bytes))).front();
    if (text.size() != sizeof(id.bytes))
      throw machine_error("NCCL", "expected rank 0's identity of the exchange, got none; see what rank 0 said");
    std::memcpy(id.bytes, text.data(), sizeof(id.bytes));
    cuda::NcclConfig config;
    tried(nccl_.init_rank(&comm_, size(), id, rank(), &config));
    settle("GPUs to be connected");
  }

  // Ends the communicator in order, unless an error is on its way, when others may not come here.
  void leave() {
    if (comm_ == nullptr) return;
    try {
      if (!has_failed_ && std::uncaught_exceptions() == 0) {
        finish();
        tried(nccl_.finalize(comm_));
        settle("GPUs to be disconnected");
        nccl_.destroy(comm_);
        return;
      }
    } catch (const std::exception&) {  // the host's peers say which rank is missing
    }
    if (comm_ != nullptr) nccl_.abort(comm_);
  }

  // Calls NCCL's functions in `calls` as one.
  template <typename Calls>
  void together(const Calls& calls) {
    tried(nccl_.group_start());
    calls();
    tried(nccl_.group_end());
    settle("an exchange to begin");
  }

  void send(std::span<const std::byte> bytes, int to) {
    if (!bytes.empty()) tried(nccl_.send(bytes.data(), bytes.size(), Nccl::kUint8, to, comm_, stream_));
  }
  void receive(std::span<std::byte> bytes, int from) {
    if (!bytes.empty()) tried(nccl_.receive(bytes.data(), bytes.size(), Nccl::kUint8, from, comm_, stream_));
  }
  [[nodiscard]] std::span<std::byte> received(int contribution, size_t elems) const {
    return std::as_writable_bytes(std::span(staging_ + contribution * piece_elems_, elems));
  }

  void add_in_order(std::span<float> sum, const Contributions& from) {
    cuda::launch(fold_kernel, {div_ceil(std::ssize(sum), int64_t{kThreads}), kThreads}, stream_, sum.data(), from,
                 std::ssize(sum));
  }

  // Exchanges as MpiPeers does, piece by piece. The staging has what ranks of the group contribute to the parts that
  // this one adds up, rank by rank; later in their place the groups' sums of this rank's part; and behind both the sums
  // of this rank's group.
  void fold_by_groups(std::span<const float> whole, std::span<float> part, const FoldGroups& groups) {
    const Cut& cut = groups.cut;
    const int64_t parts = groups.most_parts(), members = groups.order.together;
    const int64_t places = std::max<int64_t>(members * parts, groups.count());
    const int64_t step = piece_elems_ * size() / (places + parts);
    const int group = groups.of(rank()), first = groups.first(group), contributors = groups.contributors(group);
    for (int64_t at = 0; at < cut.part_elems; at += step) {
      const auto piece = [&](int i) {
        const int64_t begin = std::min(at, cut.count(i)), end = std::min(at + step, cut.count(i));
        return whole.subspan(static_cast<size_t>(cut.begin(i) + begin), static_cast<size_t>(end - begin));
      };
      const auto place = [&](int64_t i, size_t elems) { return std::span(staging_ + i * step, elems); };
      const auto sum_of = [&](int i) { return place(places + i / members, piece(i).size()); };
      together([&] {
        for (int other = first; other < first + groups.order.together; ++other) {
          if (other == rank()) continue;
          if (rank() < groups.order.contributors)
            groups.for_parts_of(other, [&](int i) { send(std::as_bytes(piece(i)), other); });
          if (other >= first + contributors) continue;
          groups.for_parts_of(rank(), [&](int i) {
            receive(std::as_writable_bytes(place((other - first) * parts + i / members, piece(i).size())), other);
          });
        }
      });
      groups.for_parts_of(rank(), [&](int i) {
        const std::span<float> sum = sum_of(i);
        clear(reinterpret_cast<std::byte*>(sum.data()), static_cast<int64_t>(sum.size_bytes()));
        add_in_order(sum, {.own = piece(i).data(),
                           .received = place(i / members, 0).data(),
                           .own_index = rank() - first,
                           .count = contributors,
                           .stride = parts * step});
      });
      // The sum of this rank's own part, which a rank of each group has.
      const int own = rank() % cut.ranks;
      const size_t mine = piece(own).size();
      together([&] {
        groups.for_parts_of(rank(), [&](int i) {
          for (int to = i; to < size() && contributors > 0; to += cut.ranks)
            if (to != rank()) send(std::as_bytes(sum_of(i)), to);
        });
        for (int from = 0; from < groups.count(); ++from)
          if (const int adder = groups.adder(from, own); adder != rank())
            receive(std::as_writable_bytes(place(from, mine)), adder);
      });
      if (mine == 0) continue;
      const bool has_own = groups.adder(group, own) == rank();
      add_in_order(part.subspan(static_cast<size_t>(at), mine), {.own = has_own ? sum_of(own).data() : nullptr,
                                                                 .received = staging_,
                                                                 .own_index = has_own ? group : -1,
                                                                 .count = groups.count(),
                                                                 .stride = step});
    }
  }

  // Gives rank `from`'s sum to ranks first, first + stride, ... below `end`, into theirs.
  void hand_on(std::span<float> sum, int from, int first, int end, int stride) {
    together([&] {
      for (int to = first; to < end; to += stride) {
        if (rank() == from) send(std::as_bytes(sum), to);
        if (rank() == to) receive(std::as_writable_bytes(sum), from);
      }
    });
  }

  // Checks the result of a function of NCCL, which may go on behind it.
  void tried(int result) {
    if (result != Nccl::kSuccess && result != Nccl::kInProgress) fail(nccl_.get_error(result));
  }

  // Returns when NCCL has done what a call has begun on the host.
  void settle(std::string_view what) {
    await(what, [] { return true; });
  }

  // Returns when NCCL is at rest and `is_done` returns true.
  template <typename IsDone>
  void await(std::string_view what, const IsDone& is_done) {
    const auto deadline = Clock::now() + std::chrono::duration<double>(options_.timeout_seconds);
    auto sleep = kFirstSleep;
    for (int tries = 0;; ++tries) {
      int state = Nccl::kSuccess;
      tried(nccl_.get_async_error(comm_, &state));
      tried(state);
      if (state == Nccl::kSuccess && is_done()) return;
      if (Clock::now() >= deadline) fail(fmt::format("none of {} within {:g} s", what, options_.timeout_seconds));
      if (tries < kYields) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(sleep);
      sleep = std::min(2 * sleep, kLongestSleep);
    }
  }

  // Aborts the communicator, so that nothing waits for other GPUs any more. The host's peers then name a rank that is
  // gone or silent.
  [[noreturn]] void fail(std::string_view got) {
    const std::string text(got);
    has_failed_ = true;
    if (comm_ != nullptr) nccl_.abort(std::exchange(comm_, nullptr));
    (void)host_.exchange("");
    throw machine_error(
        "NCCL", "expected the GPUs of all ranks to take part in an exchange, got {}; see NCCL_DEBUG=INFO", text);
  }

  const Nccl& nccl_;
  Peers& host_;
  NcclOptions options_;
  Nccl::Comm comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  float* staging_ = nullptr;  // of piece_elems_ for each rank
  int64_t piece_elems_ = 0;
  bool has_failed_ = false;
};

}  // namespace

std::unique_ptr<Peers> nccl_peers(const cuda::Nccl& nccl, Peers& host, const NcclOptions& options) {
  return std::make_unique<NcclPeers>(nccl, host, options);
}

}  // namespace spillway::ops
