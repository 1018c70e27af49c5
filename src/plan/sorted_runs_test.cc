#include "plan/sorted_runs.h"

#include <doctest/doctest.h>

#include <iterator>
#include <map>
#include <random>
#include <vector>

namespace spillway {
namespace {

std::vector<std::pair<int64_t, int32_t>> all_of(const SortedRuns& runs) {
  std::vector<std::pair<int64_t, int32_t>> result;
  for (SortedRuns::Position at = runs.lower_bound(-1); at != runs.end(); at = runs.next(at))
    result.emplace_back(runs.key(at), runs.number(at));
  return result;
}

TEST_CASE("keys that come and go in sorted runs are those of a map") {
  for (const int first_keys : {0, 1, 700}) {
    CAPTURE(first_keys);
    SortedRuns runs;
    std::map<int64_t, int32_t> expected;
    std::vector<int64_t> keys;
    for (int i = 0; i < first_keys; ++i) keys.push_back(10 * i + 3), expected[10 * i + 3] = i;
    runs.assign(keys);
    std::mt19937 random(7);
    for (int round = 0; round < 6'000; ++round) {
      const int64_t key = static_cast<int64_t>(random() % 5'000);
      const auto above = expected.lower_bound(key);
      const SortedRuns::Position at = runs.lower_bound(key);
      REQUIRE((at == runs.end()) == (above == expected.end()));
      if (above != expected.begin()) REQUIRE(runs.key(runs.previous(at)) == std::prev(above)->first);
      // Two phases: the list grows over several runs, then most of it goes again.
      const bool grows = round < 3'000;
      if (above == expected.end() || (grows && above->first != key)) {
        if (above != expected.end() && above->first == key) continue;
        const SortedRuns::Position place = runs.insert(at, key, round);
        CHECK(runs.key(place) == key);
        CHECK(runs.number(place) == round);
        expected.emplace(key, round);
      } else {
        REQUIRE(runs.key(at) == above->first);
        const SortedRuns::Position next = runs.erase(at);
        const auto after = expected.erase(above);
        REQUIRE((next == runs.end()) == (after == expected.end()));
        if (after != expected.end()) CHECK(runs.key(next) == after->first);
      }
    }
    CHECK(all_of(runs) == std::vector<std::pair<int64_t, int32_t>>(expected.begin(), expected.end()));
  }
}

}  // namespace
}  // namespace spillway
