#include "dist/testing/local_peers.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/index.h"
#include "dist/fold_in_order.h"
#include "dist/testing/peers_check.h"

using spillway::LocalFault;
using spillway::nth;
using spillway::Peers;
using spillway::run_ranks;

TEST_CASE("ranks as threads fold in order of rank, gather and exchange") {
  for (const int ranks : {2, 3, 4}) {
    const auto errors = run_ranks(ranks, spillway::check_peers);
    CHECK(errors == std::vector<std::string>(static_cast<size_t>(ranks)));
  }
}

TEST_CASE("a fold in order is the sum") {
  const std::vector<float> a = {1e8F, 1, -3}, b = {1, 2, 0.5F}, c = {-1e8F, 4, 1};
  std::vector<float> part = {0, 10, 0};
  const std::vector<const float*> contributions = {a.data(), b.data(), c.data()};
  spillway::fold_in_order(part, contributions);
  CHECK(part == std::vector<float>{0, 17, -1.5F});  // 1e8 + 1 is 1e8 in f32: ((0 + 1e8) + 1) - 1e8
}

TEST_CASE("a rank that is late changes nothing") {
  const auto errors =
      run_ranks(2,
                [](Peers& peers) {
                  for (int i = 0; i < 3; ++i)
                    CHECK(nth(peers.exchange(std::to_string(peers.rank() + i)), 1) == std::to_string(i + 1));
                },
                {.faults = {{.kind = LocalFault::Kind::kLate, .rank = 1, .call = 1, .seconds = 0.02}}});
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("a silent rank ends all others behind the deadline, by rank and host") {
  const auto errors =
      run_ranks(3,
                [](Peers& peers) {
                  for (int i = 0; i < 3; ++i) (void)peers.exchange("");
                },
                {.timeout_seconds = 1, .faults = {{.kind = LocalFault::Kind::kSilent, .rank = 1, .call = 2}}});
  for (const std::string& error : errors) {
    CHECK(error ==
          "[rank 1 on localhost] expected a sign of life within 1 s, got none; see to that host, or raise "
          "ddp_timeout if it was only slow");
  }
}

TEST_CASE("a dead rank ends all others at once, by rank and host") {
  std::vector<float> whole(100000);
  const auto errors = run_ranks(4,
                                [&](Peers& peers) {
                                  std::vector<float> part(whole.size());
                                  for (int i = 0; i < 3; ++i)
                                    peers.fold(whole, part, spillway::cut_of(100000, 4), {.contributors = 4});
                                },
                                {.faults = {{.kind = LocalFault::Kind::kDead, .rank = 2, .call = 1}}});
  for (const int i : {0, 1, 3})
    CHECK(nth(errors, i) ==
          "[rank 2 on localhost] expected it to take part in an exchange, got its end; see what it said");
  CHECK(errors[2] == "ended");
}

TEST_CASE("a rank that aborts ends the job on all ranks") {
  const auto errors = run_ranks(3, [](Peers& peers) {
    if (peers.rank() == 1) peers.abort(3);
    (void)peers.exchange("");
  });
  for (int i = 0; i < 3; ++i)
    CHECK(nth(errors, i) == fmt::format("[rank {} on localhost] expected the job to go on, got its end with status 3; "
                                        "see what the others said",
                                        i));
}

TEST_CASE("collectives that differ between ranks are an error on all") {
  const auto errors = run_ranks(2, [](Peers& peers) {
    const std::vector<float> whole(static_cast<size_t>(5000 + peers.rank()));
    std::vector<float> part(8192);
    peers.fold(whole, part, spillway::cut_of(std::ssize(whole), 2), {.contributors = 2});
  });
  CHECK(errors[0] ==
        "[rank 1 on localhost] expected fold of 5000 (2) as on rank 0, got fold of 5001 (2); this is a bug");
  CHECK(errors[1] ==
        "[rank 0 on localhost] expected fold of 5001 (2) as on rank 1, got fold of 5000 (2); this is a bug");
}

TEST_CASE("folds in groups of different sizes are an error on all ranks") {
  const auto errors = run_ranks(4, [](Peers& peers) {
    const std::vector<float> whole(5000);
    std::vector<float> part(4096);
    peers.fold(whole, part, spillway::cut_of(5000, 4), {.contributors = 4, .together = peers.rank() == 3 ? 1 : 2});
  });
  CHECK(errors[0] ==
        "[rank 3 on localhost] expected fold of 5000 (4) in groups of 2 as on rank 0, got fold of 5000 (4); this is a "
        "bug");
  for (const std::string& error : errors) CHECK_FALSE(error.empty());
}
