// The exchanges of ranks beside MPI's own collectives and a copy, in the same run:
//
//   mpirun --bind-to none -n N bench_ranks [--rounds N] [--messages]
//
// A line has a size, and the milliseconds of a fold of so many bytes (f32) and of MPI_Reduce_scatter_block, of a gather
// of so many bytes in all and of MPI_Allgather, and of a memcpy of them on all ranks at once: the least and the median
// of the rounds, of the slowest rank each. --messages: the ranks exchange messages, as between hosts.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/index.h"
#include "dist/open_peers.h"

namespace {

using namespace spillway;

struct Times {
  std::vector<double> milliseconds;  // by round

  template <typename Work>
  void add(const Work& work) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = now_seconds();
    work();
    const double mine = 1e3 * (now_seconds() - begin);
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    milliseconds.push_back(slowest);
  }
  // "least/median"
  [[nodiscard]] std::string text() {
    std::sort(milliseconds.begin(), milliseconds.end());
    return fmt::format("{:.2f}/{:.2f}", milliseconds.front(), milliseconds[milliseconds.size() / 2]);
  }
};

void measure(Peers& peers, int64_t mib, int rounds) {
  const int64_t elems = (mib << 20) / static_cast<int64_t>(sizeof(float));
  const Cut cut = cut_of(elems, peers.size());
  const auto count = static_cast<int>(elems / peers.size());
  const size_t bytes = static_cast<size_t>(elems) * sizeof(float);
  std::vector<float> whole(static_cast<size_t>(elems), 1), other(whole.size(), 2),
      part(static_cast<size_t>(cut.part_elems), 0);
  Times fold, reduce, gather, all_gather, copy;
  for (int round = 0; round < rounds; ++round) {
    fold.add([&] { peers.fold(whole, part, cut, {.contributors = peers.size()}); });
    reduce.add([&] { MPI_Reduce_scatter_block(whole.data(), part.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
    gather.add([&] {
      peers.gather(std::as_bytes(std::span(part)), std::as_writable_bytes(std::span(other)), cut, sizeof(float));
    });
    all_gather.add(
        [&] { MPI_Allgather(part.data(), count, MPI_FLOAT, other.data(), count, MPI_FLOAT, MPI_COMM_WORLD); });
    copy.add([&] { std::memcpy(other.data(), whole.data(), bytes); });
  }
  if (peers.rank() != 0) return;
  fmt::print("{:>6} {:>16} {:>16} {:>16} {:>16} {:>16}\n", mib, fold.text(), reduce.text(), gather.text(),
             all_gather.text(), copy.text());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 25;
  PeerOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--messages") options.shares_memory = false;
    if (option == "--rounds" && i + 1 < argc) rounds = std::atoi(argv[++i]);
  }
  const std::unique_ptr<Peers> peers = open_peers(read_launch(), options);
  if (peers == nullptr) {
    fmt::print(stderr, "[bench_ranks] expected several ranks, got one; start it by mpirun -n 2\n");
    return 2;
  }
  if (peers->rank() == 0) {
    fmt::print("{} ranks, {} rounds, least/median milliseconds\n", peers->size(), rounds);
    fmt::print("{:>6} {:>16} {:>16} {:>16} {:>16} {:>16}\n", "MiB", "fold", "Reduce_scatter", "gather", "Allgather",
               "memcpy");
  }
  for (const int64_t mib : {1, 4, 16, 64}) measure(*peers, mib, rounds);
  return 0;
}
