#include "ops/collectives/device_peers.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "dist/testing/local_peers.h"

using namespace spillway;
using ops::device_of_rank;

TEST_CASE("each of several ranks on a host takes the GPU of its number, or the one that it sees") {
  for (const char* device : {"auto", "cuda"}) {
    CHECK(device_of_rank(device, {.number = 0, .ranks = 2}, 8) == "cuda:0");
    CHECK(device_of_rank(device, {.number = 1, .ranks = 2}, 2) == "cuda:1");
    CHECK(device_of_rank(device, {.number = 3, .ranks = 4}, 1) == "cuda:0");  // its launcher hides the others
    CHECK(device_of_rank(device, {.number = 0, .ranks = 1}, 4) == device);
  }
  CHECK(device_of_rank("auto", {.number = 1, .ranks = 2}, 0) == "auto");
  CHECK(device_of_rank("cpu", {.number = 1, .ranks = 2}, 4) == "cpu");
  CHECK(device_of_rank("cuda:3", {.number = 0, .ranks = 1}, 4) == "cuda:3");
}

TEST_CASE("more ranks than GPUs, and one GPU for several ranks, are errors") {
  CHECK_THROWS_WITH_AS((void)device_of_rank("auto", {.number = 0, .ranks = 4}, 2),
                       "[device] expected a GPU for each of 4 ranks on a host, got 2 GPUs; start fewer ranks",
                       InputError);
  CHECK_THROWS_WITH_AS((void)device_of_rank("cuda:1", {.number = 0, .ranks = 2}, 2),
                       "[device] expected cuda beside 2 ranks on a host, each of which takes the GPU of its number "
                       "there, got 'cuda:1'; write cuda",
                       InputError);
  const std::vector<std::unique_ptr<Peers>> peers = local_peers(3);
  const std::vector<std::string> all = {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"},
                                 twice = {"0000:01:00.0", "0000:02:00.0", "0000:01:00.0"};
  CHECK_NOTHROW(ops::check_gpus_differ(all, *peers[0]));
  CHECK_THROWS_WITH_AS(ops::check_gpus_differ(twice, *peers[0]),
                       "[device] expected a GPU for each rank, got 0000:01:00.0 of localhost for ranks 0 and 2; start "
                       "fewer ranks",
                       InputError);
}
