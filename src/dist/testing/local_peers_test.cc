#include "dist/testing/local_peers.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "base/index.h"

using spillway::Cut;
using spillway::cut_of;
using spillway::LocalFault;
using spillway::nth;
using spillway::Peers;
using spillway::run_ranks;

namespace {

using Floats = std::vector<float>;

const std::vector<std::string> kNoErrors[] = {{}, {""}, {"", ""}, {"", "", ""}, {"", "", "", ""}};

// Returns numbers of many magnitudes, whose sums depend on the order.
Floats numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Floats result(static_cast<size_t>(count));
  for (float& one : result)
    one = std::ldexp(static_cast<float>(random() % 2001) - 1000, static_cast<int>(random() % 15));
  return result;
}

}  // namespace

TEST_CASE("a fold gives each part the contributions in order of rank") {
  for (const int64_t elems : {0, 1, 5000, 40000, 4096 * 4, 4096 * 9 + 17}) {
    for (const int ranks : {2, 3, 4}) {
      for (int contributors = 0; contributors <= ranks; ++contributors) {
        CAPTURE(elems);
        CAPTURE(ranks);
        CAPTURE(contributors);
        std::vector<Floats> wholes;
        for (int i = 0; i < ranks; ++i) wholes.push_back(numbers(elems, static_cast<uint32_t>(i + 1)));
        const Floats before = numbers(elems, 99);
        Floats after(before.size());
        const auto errors = run_ranks(ranks, [&](Peers& peers) {
          const Cut cut = cut_of(elems, peers.size());
          Floats part(static_cast<size_t>(cut.part_elems), -7);
          const auto count = static_cast<size_t>(cut.count(peers.rank()));
          std::copy_n(before.begin() + cut.begin(peers.rank()), count, part.begin());
          // What does not contribute is not read.
          Floats mine = peers.rank() < contributors ? nth(wholes, peers.rank()) : Floats(before.size(), NAN);
          peers.fold(mine, part, contributors);
          std::copy_n(part.begin(), count, after.begin() + cut.begin(peers.rank()));
          for (size_t i = count; i < part.size(); ++i) REQUIRE(part[i] == -7);
        });
        REQUIRE(errors == nth(kNoErrors, ranks));
        for (size_t i = 0; i < before.size(); ++i) {
          float in_order = before[i];
          double exact = before[i], magnitude = std::abs(before[i]);
          for (int r = 0; r < contributors; ++r) {
            in_order = in_order + nth(wholes, r)[i];
            exact += nth(wholes, r)[i];
            magnitude += std::abs(nth(wholes, r)[i]);
          }
          REQUIRE(after[i] == in_order);
          REQUIRE(std::abs(after[i] - exact) <= 1e-6 * magnitude);
        }
      }
    }
  }
}

TEST_CASE("a gather gives every rank the parts of all") {
  for (const int64_t elems : {0, 1, 5000, 4096 * 7 + 3}) {
    for (const int ranks : {2, 3, 4}) {
      for (const int64_t elem_bytes : {1, 2, 4}) {
        CAPTURE(elems);
        CAPTURE(ranks);
        std::vector<std::byte> expected(static_cast<size_t>(elems * elem_bytes));
        std::mt19937 random(5);
        for (std::byte& one : expected) one = static_cast<std::byte>(random());
        std::atomic<int> right = 0;
        const auto errors = run_ranks(ranks, [&](Peers& peers) {
          const Cut cut = cut_of(elems, ranks);
          std::vector<std::byte> part(static_cast<size_t>(cut.part_elems * elem_bytes), std::byte{0xEE});
          std::copy_n(expected.begin() + cut.begin(peers.rank()) * elem_bytes, cut.count(peers.rank()) * elem_bytes,
                      part.begin());
          std::vector<std::byte> whole(expected.size());
          peers.gather(part, whole, elem_bytes);
          right += whole == expected ? 1 : 0;
        });
        CHECK(errors == nth(kNoErrors, ranks));
        CHECK(right == ranks);
      }
    }
  }
}

TEST_CASE("every rank gets the messages of all, by rank, of any length") {
  const auto errors = run_ranks(3, [](Peers& peers) {
    for (int round = 0; round < 50; ++round) {
      const std::string mine(static_cast<size_t>(peers.rank() * round), static_cast<char>('a' + peers.rank()));
      const auto all = peers.exchange(mine);
      REQUIRE(all.size() == 3);
      for (int i = 0; i < 3; ++i)
        REQUIRE(nth(all, i) == std::string(static_cast<size_t>(i * round), static_cast<char>('a' + i)));
    }
  });
  CHECK(errors == kNoErrors[3]);
}

TEST_CASE("a rank that is late changes nothing") {
  const auto errors =
      run_ranks(2,
                [](Peers& peers) {
                  for (int i = 0; i < 3; ++i)
                    CHECK(nth(peers.exchange(std::to_string(peers.rank() + i)), 1) == std::to_string(i + 1));
                },
                {.faults = {{.kind = LocalFault::Kind::kLate, .rank = 1, .call = 1, .seconds = 0.02}}});
  CHECK(errors == kNoErrors[2]);
}

TEST_CASE("a silent rank ends all others behind the deadline, by rank and host") {
  const auto errors =
      run_ranks(3,
                [](Peers& peers) {
                  for (int i = 0; i < 3; ++i) (void)peers.exchange("");
                },
                {.timeout_seconds = 0.05, .faults = {{.kind = LocalFault::Kind::kSilent, .rank = 1, .call = 2}}});
  for (const std::string& error : errors) {
    CHECK(error ==
          "[rank 1 on localhost] expected a sign of life within 0.05 s, got none; see to that host, or raise "
          "ddp_timeout if it was only slow");
  }
}

TEST_CASE("a dead rank ends all others at once, by rank and host") {
  Floats whole(100000);
  const auto errors = run_ranks(4,
                                [&](Peers& peers) {
                                  Floats part(whole.size());
                                  for (int i = 0; i < 3; ++i) peers.fold(whole, part, 4);
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
    const Floats whole(static_cast<size_t>(5000 + peers.rank()));
    Floats part(8192);
    peers.fold(whole, part, 2);
  });
  CHECK(errors[0] ==
        "[rank 1 on localhost] expected fold of 5000 (2) as on rank 0, got fold of 5001 (2); this is a bug");
  CHECK(errors[1] ==
        "[rank 0 on localhost] expected fold of 5001 (2) as on rank 1, got fold of 5000 (2); this is a bug");
}
