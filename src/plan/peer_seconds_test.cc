#include "plan/peer_seconds.h"

#include <doctest/doctest.h>

#include "base/index.h"
#include "graph/builder.h"
#include "ops/collectives/all_gather/all_gather.h"
#include "ops/collectives/part.h"
#include "ops/collectives/reduce_scatter/reduce_scatter.h"

using namespace spillway;

namespace {

constexpr int64_t kPart = 64 * 4096;  // elements; parts of 1 MiB
constexpr double kPartBytes = 4 * kPart, kInside = 1e11, kBetween = 1e10;

// Returns the seconds of a sum (operation 0) or of a gather (1) over groups of so many ranks.
double collective_seconds(OpId id, int ranks, const Machine& machine, int copies = 1, int together = 1) {
  Graph graph;
  Builder b(graph);
  const ValueType type{DType::kF32, {kPart * ranks}};
  const ValueId whole = b.input("whole", type, ValueKind::kBatch);
  const ValueId part = b.input("part", ops::part_type(type, ranks), ValueKind::kGradient);
  b.split(part);
  const ValueId sum =
      ops::reduce_scatter(b, whole, part, {0, kPart * ranks}, {.ranks = ranks, .copies = copies, .together = together});
  (void)ops::all_gather(b, sum, type.shape, ranks);
  return peer_seconds(graph, id, machine);
}

Machine gpus(int64_t on_host) {
  Machine machine{.device = DeviceKind::kCuda, .operation_seconds = 0};
  machine.ranks_on_host = on_host;
  machine.peer_between_hosts_bytes_per_second = kBetween;
  nth(machine.link_bytes_per_second, Lane::kPeer) = kInside;
  return machine;
}

}  // namespace

TEST_CASE("on one host a rank sends all parts but its own") {
  for (const OpId id : {0, 1})
    CHECK(collective_seconds(id, 16, gpus(16)) == doctest::Approx(15 * kPartBytes / kInside));
}

TEST_CASE("a sum crosses to other hosts from each rank, and what GPUs gather once a host") {
  // Hosts of 8: each of 16 ranks has 7 others beside it, and 8 elsewhere.
  CHECK(collective_seconds(0, 16, gpus(8)) == doctest::Approx(8 * kPartBytes / kBetween));
  CHECK(collective_seconds(1, 16, gpus(8)) == doctest::Approx(15 * kPartBytes / kInside));
  // With 32 ranks, 24 parts come from elsewhere, through eight links.
  Machine slow = gpus(8);
  slow.peer_between_hosts_bytes_per_second = kBetween / 10;
  CHECK(collective_seconds(1, 32, slow) == doctest::Approx(24 * kPartBytes / 8 / (kBetween / 10)));
  // Processes on CPUs send straight to each other.
  slow.device = DeviceKind::kCpu;
  CHECK(collective_seconds(1, 32, slow) == doctest::Approx(24 * kPartBytes / (kBetween / 10)));
}

TEST_CASE("groups within hosts gather there, and hand sums on between hosts") {
  CHECK(collective_seconds(1, 8, gpus(8)) == doctest::Approx(7 * kPartBytes / kInside));
  // A rank's contributions stay in the group; its part of the sum goes to three other groups.
  CHECK(collective_seconds(0, 8, gpus(8), 4) == doctest::Approx(3 * kPartBytes / kBetween));
  Machine late = gpus(8);
  late.peer_latency_seconds = 1;
  CHECK(collective_seconds(1, 8, late) == doctest::Approx(1).epsilon(1e-3));
  CHECK(collective_seconds(0, 8, late, 4) == doctest::Approx(7).epsilon(1e-3));
}

TEST_CASE("a sum by host crosses to other hosts once from all ranks of a host") {
  // Each of 16 ranks on two hosts adds up two parts, and sends one of them across.
  CHECK(collective_seconds(0, 16, gpus(8), 1, 8) ==
        doctest::Approx(std::max(14 * kPartBytes / kInside, kPartBytes / kBetween)));
  // In groups of the ranks of a host it adds up its own, for three other groups.
  CHECK(collective_seconds(0, 8, gpus(8), 4, 8) == doctest::Approx(3 * kPartBytes / kBetween));
  // Two copies on each of two hosts: one rank adds up for both, and gives it to three more.
  CHECK(collective_seconds(0, 4, gpus(8), 4, 8) == doctest::Approx(2 * kPartBytes / kBetween));
  Machine late = gpus(8);
  late.peer_latency_seconds = 1;
  CHECK(collective_seconds(0, 16, late, 1, 8) == doctest::Approx(2).epsilon(1e-3));
}

TEST_CASE("groups that do not fill hosts cross to others wherever they begin") {
  // Ranks 6 to 11 of hosts of 8: as few as two are together.
  CHECK(collective_seconds(1, 6, gpus(8)) == doctest::Approx(4 * kPartBytes / 2 / kBetween));
}
