// Tests the exchange of GPUs with the kernel of CUDA run by the CPU (backend/testing/simt.h), over a stand-in of NCCL:
// the ranks are threads, and what they send goes by the peers of tests. Held against sums in order of rank.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/index.h"
#include "dist/testing/local_peers.h"
#include "dist/testing/peers_check.h"
#include "ops/collectives/cuda/nccl_peers.h"
#include "train/rank_text.h"

using namespace spillway;
using cuda::Nccl;

namespace {

// One rank's end of a communicator. As NCCL with `blocking` 0, it answers that a call is in progress, and is done when
// it is asked again.
struct StandIn {
  Peers* fabric = nullptr;
  bool is_stuck = false;   // as where another rank never comes
  bool is_broken = false;  // as where NCCL fails

  struct Sent {
    int to = 0;
    std::string bytes;
  };
  struct Expected {
    int from = 0;
    void* to = nullptr;
    size_t bytes = 0;
  };
  std::vector<Sent> sent;
  std::vector<Expected> expected;
  bool is_busy = false, is_aborted = false, is_destroyed = false;

  // Hands over what the group has sent. Returns NCCL's code of invalid usage unless it is what was expected.
  int exchange() {
    train::TextWriter writer;
    for (const Sent& one : sent) {
      writer.add(one.to);
      writer.add_list(one.bytes);
    }
    sent.clear();
    std::map<int, std::vector<std::string>> received;  // by rank, for this one
    const std::span<const std::string> texts = fabric->exchange(writer.take());
    for (int rank = 0; rank < fabric->size(); ++rank) {
      for (train::TextReader reader(nth(texts, rank)); !reader.is_at_end();) {
        const int to = reader.take<int>();
        const std::string bytes(reader.take_string());
        if (to == fabric->rank()) received[rank].push_back(bytes);
      }
    }
    for (const Expected& one : std::exchange(expected, {})) {
      std::vector<std::string>& from = received[one.from];
      if (from.empty() || from.front().size() != one.bytes) return kInvalid;
      std::memcpy(one.to, from.front().data(), one.bytes);
      from.erase(from.begin());
    }
    return std::all_of(received.begin(), received.end(), [](const auto& rank) { return rank.second.empty(); })
               ? Nccl::kInProgress
               : kInvalid;
  }

  static constexpr int kInvalid = 5;
};

thread_local StandIn* mine = nullptr;  // of this thread's rank

const Nccl kStandIn = {
    .get_unique_id =
        [](cuda::NcclId* id) {
          std::strcpy(id->bytes, "the first rank's");
          return Nccl::kSuccess;
        },
    .init_rank =
        [](Nccl::Comm* comm, int ranks, cuda::NcclId id, int rank, cuda::NcclConfig* config) {
          *comm = mine;
          mine->is_busy = true;
          const bool is_right = ranks == mine->fabric->size() && rank == mine->fabric->rank() &&
                                std::string(id.bytes) == "the first rank's" && config->blocking == 0;
          return is_right ? Nccl::kInProgress : StandIn::kInvalid;
        },
    .get_async_error =
        [](Nccl::Comm comm, int* result) {
          auto* const self = static_cast<StandIn*>(comm);
          const bool was_busy = std::exchange(self->is_busy, self->is_stuck && self->is_busy);
          *result = was_busy ? Nccl::kInProgress : Nccl::kSuccess;
          return Nccl::kSuccess;
        },
    .finalize = [](Nccl::Comm) { return Nccl::kInProgress; },
    .destroy =
        [](Nccl::Comm comm) {
          static_cast<StandIn*>(comm)->is_destroyed = true;
          return Nccl::kSuccess;
        },
    .abort =
        [](Nccl::Comm comm) {
          static_cast<StandIn*>(comm)->is_aborted = true;
          return Nccl::kSuccess;
        },
    .group_start = [] { return Nccl::kSuccess; },
    .group_end =
        [] {
          mine->is_busy = true;
          if (mine->is_broken) return StandIn::kInvalid;
          return mine->is_stuck ? Nccl::kInProgress : mine->exchange();
        },
    .send =
        [](const void* from, size_t count, int, int peer, Nccl::Comm, Nccl::Stream) {
          mine->sent.push_back({peer, std::string(static_cast<const char*>(from), count)});
          return Nccl::kSuccess;
        },
    .receive =
        [](void* to, size_t count, int, int peer, Nccl::Comm, Nccl::Stream) {
          mine->expected.push_back({peer, to, count});
          return Nccl::kSuccess;
        },
    .all_gather =
        [](const void* from, void* to, size_t count, int, Nccl::Comm, Nccl::Stream) {
          for (int rank = 0; rank < mine->fabric->size(); ++rank) {
            mine->sent.push_back({rank, std::string(static_cast<const char*>(from), count)});
            mine->expected.push_back({rank, static_cast<char*>(to) + static_cast<size_t>(rank) * count, count});
          }
          return Nccl::kSuccess;
        },
    .get_error = [](int result) { return result == StandIn::kInvalid ? "invalid usage" : "another error"; },
};

// Runs `body` as each rank, with the peers of its GPU and its end of the communicator.
std::vector<std::string> run_gpus(int ranks, const std::function<void(Peers&, StandIn&)>& body, LocalOptions options,
                                  double timeout_seconds = 60) {
  const std::vector<std::unique_ptr<Peers>> fabric = local_peers(ranks);
  return run_ranks(
      ranks,
      [&](Peers& host) {
        StandIn end{.fabric = nth(fabric, host.rank()).get()};
        mine = &end;
        {
          const auto peers = ops::nccl_peers(kStandIn, host, {.timeout_seconds = timeout_seconds});
          body(*peers, end);
        }
        CHECK(end.is_destroyed);
        CHECK_FALSE(end.is_aborted);
      },
      std::move(options));
}

}  // namespace

TEST_CASE("GPUs fold in order of rank, gather and exchange") {
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    const auto errors = run_gpus(ranks, [](Peers& peers, StandIn&) { check_peers(peers); }, {});
    CHECK(errors == std::vector<std::string>(static_cast<size_t>(ranks)));
  }
}

TEST_CASE("where a rank's GPU does not come to an exchange, the others name it behind the deadline, and abort") {
  bool is_aborted = false;
  const auto errors = run_gpus(
      2,
      [&](Peers& peers, StandIn& end) {
        if (peers.rank() == 1) throw EndedRank();
        std::vector<float> whole(5000), part(8192);
        end.is_stuck = true;
        try {
          peers.fold(whole, part, cut_of(5000, 2), {.contributors = 2});
          peers.finish();
        } catch (...) {
          is_aborted = end.is_aborted;
          throw;
        }
      },
      {}, 0.05);
  CHECK(errors[0] == "[rank 1 on localhost] expected it to take part in an exchange, got its end; see what it said");
  CHECK(is_aborted);
}

TEST_CASE("an error of NCCL ends an exchange with its text") {
  const auto errors = run_gpus(2,
                               [&](Peers& peers, StandIn& end) {
                                 std::vector<float> whole(5000), part(8192);
                                 end.is_broken = true;
                                 peers.fold(whole, part, cut_of(5000, 2), {.contributors = 2});
                               },
                               {});
  for (const std::string& error : errors)
    CHECK(error ==
          "[NCCL] expected the GPUs of all ranks to take part in an exchange, got invalid usage; see NCCL_DEBUG=INFO");
}
