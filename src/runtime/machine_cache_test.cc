#include "runtime/machine_cache.h"

#include <doctest/doctest.h>

#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "io/disk_space.h"
#include "runtime/computer.h"
#include "tests/support/cache_folder.h"
#include "tests/support/cpu_share.h"

using namespace spillway;

namespace {

constexpr auto kReadLane = static_cast<size_t>(Lane::kDiskRead), kWriteLane = static_cast<size_t>(Lane::kDiskWrite);

// Returns this machine, with a disk that is not here.
Machine quiet_machine() {
  Machine machine{.name = cpu_name(), .threads = available_cpus(), .matrix_flops_f32 = 7, .disks = "999:1"};
  machine.link_bytes_per_second[kReadLane] = machine.link_bytes_per_second[kWriteLane] = 1;
  machine.operations["matmul"] = {.compute = 1};
  return machine;
}

// The CPU with a library that has several algorithms.
class ChoosingDevice final : public Device {
 public:
  [[nodiscard]] DeviceKind kind() const override { return cpu_device().kind(); }
  [[nodiscard]] bool is_asynchronous() const override { return cpu_device().is_asynchronous(); }
  [[nodiscard]] bool shares_host_memory() const override { return cpu_device().shares_host_memory(); }
  [[nodiscard]] int64_t free_bytes() const override { return cpu_device().free_bytes(); }
  [[nodiscard]] std::string libraries() const override { return libraries_; }
  [[nodiscard]] int64_t library_bytes() const override { return 0; }
  [[nodiscard]] Memory allocate(std::string_view tier, int64_t bytes) override {
    return cpu_device().allocate(tier, bytes);
  }
  [[nodiscard]] Pinned pin(std::span<std::byte> memory) override { return cpu_device().pin(memory); }
  [[nodiscard]] std::unique_ptr<DeviceQueue> make_queue() override { return cpu_device().make_queue(); }
  [[nodiscard]] std::unique_ptr<DeviceEvent> make_event() override { return cpu_device().make_event(); }
  [[nodiscard]] Algorithms algorithms() const override { return chosen_; }
  void set_algorithms(const Algorithms& algorithms) override { chosen_ = algorithms; }
  void upgrade() { libraries_ = "a library 1.3"; }

 private:
  Algorithms chosen_;
  std::string libraries_ = "a library 1.2";
};

}  // namespace

TEST_CASE("the machine is measured once and read from the cache afterwards") {
  const testing::CacheFolder folder;
  const testing::FixedCpuShare quiet(1);
  const Machine measured = this_machine({folder.path()});
  CHECK(measured.matrix_flops_f32 > 1e8);
  CHECK(measured.memory_bytes_per_second > 1e8);
  CHECK(measured.operation_seconds > 0);
  const Machine cached = this_machine({folder.path()});
  CHECK(cached.matrix_flops_f32 == measured.matrix_flops_f32);
  CHECK(cached.operation_seconds == measured.operation_seconds);
  std::ofstream(machine_cache_path()) << "{\"name\": 3";
  CHECK(this_machine({folder.path()}).threads == measured.threads);
}

TEST_CASE("what was measured on a busy machine is measured again at the first start on one less busy") {
  const testing::CacheFolder folder;
  const std::vector<std::string> folders = {folder.path()};
  Machine machine = quiet_machine();
  machine.cpu_shares = {.rates = 0.2, .disks = 0.2};
  machine.disks = disks_of(folders);
  cache_machine(machine, cpu_device());
  const auto start = [&](double cpu_share) {
    const testing::FixedCpuShare fixed(cpu_share);
    Machine result = this_machine(folders);
    if (cpu_share != 0.5) measure_new_disks(result, folders);  // each takes seconds
    CHECK(result.operations == machine.operations);
    const Machine cached = cached_machine(cpu_device()).value();
    CHECK(cached.matrix_flops_f32 == result.matrix_flops_f32);
    CHECK(cached.link_bytes_per_second == result.link_bytes_per_second);
    return result;
  };
  const auto has_new_rates = [](const Machine& now, const Machine& before) {
    return now.matrix_flops_f32 != before.matrix_flops_f32;
  };
  const Machine as_busy = start(0.2), less_busy = start(0.5), as_busy_again = start(0.5), quiet = start(1),
                busy = start(0.2);
  CHECK_FALSE(has_new_rates(as_busy, machine));
  CHECK(has_new_rates(less_busy, as_busy));
  CHECK(less_busy.cpu_shares.rates == doctest::Approx(0.5));
  CHECK(as_busy.link_bytes_per_second[kReadLane] == 1);
  CHECK(quiet.link_bytes_per_second[kReadLane] > 1);
  CHECK(quiet.cpu_shares.disks == 1);
  CHECK(busy.link_bytes_per_second[kReadLane] == quiet.link_bytes_per_second[kReadLane]);
  CHECK_FALSE(has_new_rates(as_busy_again, less_busy));
  CHECK(has_new_rates(quiet, as_busy_again));
  CHECK_FALSE(has_new_rates(busy, quiet));
}

TEST_CASE("rates of a busy machine do not take the place of better ones, unless all is to be forgotten") {
  const testing::CacheFolder folder;
  const Machine known = quiet_machine();
  Machine busy{.name = known.name, .threads = known.threads, .matrix_flops_f32 = 1, .disks = known.disks};
  busy.link_bytes_per_second[kReadLane] = busy.link_bytes_per_second[kWriteLane] = 3;
  busy.cpu_shares = {.rates = 0.5, .disks = 0.5};
  const auto after = [&](const Machine& measured, bool forget) {
    cache_machine(known, cpu_device());
    cache_rates(measured, cpu_device(), forget);
    return cached_machine(cpu_device()).value();
  };
  const Machine kept = after(busy, false);
  CHECK(kept.matrix_flops_f32 == known.matrix_flops_f32);
  CHECK(kept.link_bytes_per_second[kReadLane] == 1);
  CHECK(kept.cpu_shares.rates == 1);
  CHECK(kept.cpu_shares.disks == 1);
  const Machine forgotten = after(busy, true);
  CHECK(forgotten.matrix_flops_f32 == 1);
  CHECK(forgotten.operations.empty());
  CHECK(forgotten.cpu_shares.rates == 0.5);
  busy.cpu_shares = {};
  const Machine replaced = after(busy, false);
  CHECK(replaced.matrix_flops_f32 == 1);
  CHECK(replaced.link_bytes_per_second[kWriteLane] == 3);
  CHECK(replaced.operations == known.operations);
}

TEST_CASE("disks are measured for the first job that uses them, after others had their turn or measuring them failed") {
  const testing::CacheFolder folder;
  const testing::FixedCpuShare quiet(1);
  Machine machine = quiet_machine();
  machine.measured.link_bytes_per_second[kReadLane] = 1;
  cache_machine(machine, cpu_device());
  const std::vector<std::string> folders = {folder.path()};
  const auto check_measured = [&] {
    measure_new_disks(machine, folders);
    CHECK(machine.disks == disks_of(folders));
    CHECK(machine.link_bytes_per_second[kReadLane] > 1e5);
    CHECK(machine.measured.link_bytes_per_second[kReadLane] == 0);
    const std::optional<Machine> cached = cached_machine(cpu_device());
    REQUIRE(cached.has_value());
    CHECK(cached->disks == machine.disks);
    CHECK(cached->link_bytes_per_second == machine.link_bytes_per_second);
    CHECK(cached->operations == machine.operations);
  };
  check_measured();
  machine.link_bytes_per_second[kWriteLane] = 0;
  check_measured();
  machine.link_bytes_per_second[kReadLane] = 7;  // as a run has corrected it
  measure_new_disks(machine, folders);
  CHECK(machine.link_bytes_per_second[kReadLane] == 7);
}

TEST_CASE("with another version of a device's libraries the machine is measured anew") {
  const testing::CacheFolder folder;
  ChoosingDevice device;
  Machine machine;
  machine.name = cpu_name();
  machine.threads = available_cpus();
  machine.algorithms["4x4x4 by a library 1.2"] = 3;
  cache_machine(machine, device);
  CHECK(cached_machine(device).has_value());
  device.upgrade();
  CHECK_FALSE(cached_machine(device).has_value());
  restore_algorithms(device);
  CHECK(device.algorithms() == machine.algorithms);  // for the day that version is back
}

TEST_CASE("algorithms that were chosen stay with the device, also where all else is measured anew") {
  const testing::CacheFolder folder;
  ChoosingDevice device;
  restore_algorithms(device);
  CHECK(device.algorithms().empty());
  Machine machine;
  machine.name = cpu_name();
  machine.threads = available_cpus();
  machine.algorithms["4x4x4 by a library 1.2"] = 3;
  cache_machine(machine, device);
  restore_algorithms(device);
  CHECK(device.algorithms() == machine.algorithms);
  machine.name = "another";
  machine.algorithms.clear();
  cache_machine(machine, device);
  restore_algorithms(device);
  CHECK(device.algorithms().size() == 1);
}
