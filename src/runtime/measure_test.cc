#include "runtime/measure.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/bytes.h"
#include "base/index.h"
#include "base/temporary_folder.h"

using namespace spillway;

namespace {

constexpr auto kRead = static_cast<size_t>(Lane::kDiskRead), kWrite = static_cast<size_t>(Lane::kDiskWrite);

}  // namespace

TEST_CASE("the disk is measured without leaving a file") {
  const TemporaryFolder folder;
  const DiskRates rates = measure_disks({folder.path(), folder.path() / "not yet"}, 8 * kMiB);
  CAPTURE(rates.problem);
  CHECK(rates.problem.empty());
  for (const DiskRate& rate : {rates.write, rates.read}) {
    CHECK(rate.bytes_per_second > 1e5);
    CHECK(rate.beside_opposite > 1e5);
    CHECK(rate.latency_seconds < 1);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("what lanes lose to each other follows from their rates alone and together") {
  Machine machine{.threads = 4};
  const DiskRates rates = {
      .write = {.bytes_per_second = 4e9, .beside_opposite = 1e9, .cores = 0.5, .latency_seconds = 1e-3},
      .read = {.bytes_per_second = 2e9, .beside_opposite = 2.1e9}};
  set_disks(machine, {"/tmp"}, rates);
  CHECK(machine.link_bytes_per_second[kWrite] == 4e9);
  CHECK(machine.opposite_share[kWrite] == doctest::Approx(0.75));
  CHECK(machine.opposite_share[kRead] == 0);
  CHECK(machine.compute_share[kWrite] == doctest::Approx(0.125));
  CHECK(machine.link_latency_seconds[kWrite] == 1e-3);
  CHECK(machine.cpu_shares.disks == 1);
  set_disks(machine, {"/tmp"}, {.cpu_share = 0.5});
  CHECK(machine.cpu_shares.disks == 0.5);
  set_disks(machine, {"/tmp"}, {.problem = "full"});
  CHECK(machine.link_bytes_per_second[kRead] == 0);
  CHECK(machine.opposite_share[kWrite] == 0);
}

TEST_CASE("to a device of its own a disk is no faster than the link, and takes no core") {
  Machine machine{.device = DeviceKind::kCuda};
  nth(machine.link_bytes_per_second, Lane::kHostToDevice) = 1e9;
  nth(machine.link_bytes_per_second, Lane::kDeviceToHost) = 3e9;
  const DiskRate rate = {.bytes_per_second = 2e9, .cores = 1};
  set_disks(machine, {"/tmp"}, {.write = rate, .read = rate});
  CHECK(machine.link_bytes_per_second[kRead] == 1e9);
  CHECK(machine.link_bytes_per_second[kWrite] == 2e9);
  CHECK(machine.compute_share[kRead] == 0);
}

TEST_CASE("a disk that cannot be measured says why") {
  CHECK_FALSE(measure_disks({"/proc"}, 8 * kMiB).problem.empty());
  CHECK(measure_disks({"/tmp"}, 1).problem == "less than 32.0 MiB free");
}
