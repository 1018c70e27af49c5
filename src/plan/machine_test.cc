#include "plan/machine.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/index.h"

using namespace spillway;

namespace {

Machine host_of_eight() {
  Machine machine{.device = DeviceKind::kCuda, .threads = 112};
  nth(machine.capacity_bytes, Tier::kDevice) = nth(machine.total_bytes, Tier::kDevice) = 80;
  nth(machine.capacity_bytes, Tier::kHost) = nth(machine.total_bytes, Tier::kHost) = 1600;
  nth(machine.link_bytes_per_second, Lane::kDiskRead) = 40e9;
  nth(machine.link_bytes_per_second, Lane::kHostToDevice) = 50e9;
  machine.host_bytes_per_second = 400e9;
  machine.ranks_per_host = 8;
  return machine;
}

}  // namespace

TEST_CASE("ranks share their host's memory, disks and CPUs, and each has its GPU") {
  const Machine host = host_of_eight();
  const Machine one = share_of_rank(host, 1000), of_two = share_of_rank(host, 2), alone = share_of_rank(host, 1);
  CHECK(nth(one.capacity_bytes, Tier::kDevice) == 80);
  CHECK(nth(one.capacity_bytes, Tier::kHost) == 200);
  CHECK(nth(one.total_bytes, Tier::kHost) == 200);
  CHECK(one.threads == 14);
  CHECK(one.host_bytes_per_second == 50e9);
  CHECK(nth(one.link_bytes_per_second, Lane::kDiskRead) == 5e9);
  CHECK(nth(one.link_bytes_per_second, Lane::kHostToDevice) == 50e9);
  CHECK(one.ranks_on_host == 8);
  CHECK(nth(of_two.capacity_bytes, Tier::kHost) == 800);
  CHECK(nth(alone.capacity_bytes, Tier::kHost) == 1600);
  // The share of other numbers of ranks follows from any.
  CHECK(share_of_rank(one, 2).threads == 56);
  CHECK(nth(share_of_rank(of_two, 16).capacity_bytes, Tier::kHost) == 200);
}

TEST_CASE("ranks that compute on CPUs share those and their memory, as many as there are on a host") {
  Machine machine{.threads = 3, .matrix_flops_f32 = 8e9, .memory_bytes_per_second = 4e9};
  machine.ranks_per_host = 0;
  nth(machine.capacity_bytes, Tier::kDevice) = 100;
  machine.operations["matmul"] = {.compute = 1, .host = 2};
  const Machine share = share_of_rank(machine, 4);
  CHECK(share.operations.at("matmul") == Machine::OperationSeconds{.compute = 4, .host = 8});
  CHECK(nth(share.capacity_bytes, Tier::kDevice) == 25);
  CHECK(share.matrix_flops_f32 == 2e9);
  CHECK(share.memory_bytes_per_second == 1e9);
  CHECK(share.threads == 1);
}

TEST_CASE("a machine without a rate at which ranks exchange is an error that says which one") {
  Machine host = host_of_eight();
  CHECK_THROWS_WITH_AS(check_peer_rates(host, 2, "host.json"),
                       "[host.json] expected 'link_bytes_per_second.peer' above zero for 2 ranks on a host, got 0; "
                       "write the bytes per second that a rank sends to others on its host",
                       InputError);
  nth(host.link_bytes_per_second, Lane::kPeer) = 360e9;
  CHECK_NOTHROW(check_peer_rates(host, 8, "host.json"));
  CHECK_THROWS_WITH_AS(check_peer_rates(host, 16, "host.json"),
                       "[host.json] expected 'peer_between_hosts_bytes_per_second' above zero for 16 ranks on hosts of "
                       "8, got none; write the bytes per second that a rank sends to other hosts, or the "
                       "'ranks_per_host'",
                       InputError);
  host.peer_between_hosts_bytes_per_second = 45e9;
  CHECK_NOTHROW(check_peer_rates(host, 1000, "host.json"));
  const Machine read = machine_from_json(nlohmann::json::parse(to_json(host).dump()), "host.json");
  CHECK(read.ranks_per_host == 8);
  CHECK(read.peer_between_hosts_bytes_per_second == 45e9);
}
