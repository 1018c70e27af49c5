#include "runtime/measure.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/device.h"
#include "base/bytes.h"
#include "base/parallel.h"
#include "runtime/computer.h"
#include "tests/support/cache_folder.h"
#include "tests/support/temporary_folder.h"

using namespace spillway;

namespace {

constexpr auto kRead = static_cast<size_t>(Lane::kDiskRead), kWrite = static_cast<size_t>(Lane::kDiskWrite);

}  // namespace

TEST_CASE("the computer's memory, disk and CPU have plausible sizes") {
  CHECK(total_memory_bytes() > 128 * kMiB);
  CHECK(available_memory_bytes() > 0);
  CHECK(available_memory_bytes() <= total_memory_bytes());
  CHECK(free_disk_bytes("/tmp/not/yet/there") == free_disk_bytes("/tmp"));
  CHECK_FALSE(cpu_name().empty());
}

TEST_CASE("disks are told apart, folders on one disk are not, and each of them is a share") {
  const auto text_of = [](const std::vector<std::string>& folders) { return disks_of(folders); };
  const std::string tmp = text_of({"/tmp"}), proc = text_of({"/proc"});
  CHECK(tmp != proc);
  CHECK(text_of({"/tmp/not/yet/there"}) == tmp);
  CHECK(text_of({"/tmp", "/proc"}) == text_of({"/proc", "/tmp"}));
  CHECK(text_of({"/tmp", "/tmp/not"}) == tmp + " " + tmp);
}

TEST_CASE("a thread that wakes promptly keeps its policy and niceness") {
  const int before = ::sched_getscheduler(0);
  int policy = -1, niceness = -1, after = -2;
  std::thread([&] {
    (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 15);
    niceness = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
    wake_promptly();
    policy = ::sched_getscheduler(0);
    after = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  }).join();
  CHECK(policy == before);
  CHECK(after == niceness);
}

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
  set_disks(machine, {"/tmp"}, {.problem = "full"});
  CHECK(machine.link_bytes_per_second[kRead] == 0);
  CHECK(machine.opposite_share[kWrite] == 0);
}

TEST_CASE("to a device of its own a disk is no faster than the link, and takes no core") {
  Machine machine{.device = DeviceKind::kCuda};
  machine.link_bytes_per_second[static_cast<size_t>(Lane::kHostToDevice)] = 1e9;
  machine.link_bytes_per_second[static_cast<size_t>(Lane::kDeviceToHost)] = 3e9;
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

namespace {

// The CPU, with a library that has several algorithms.
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

TEST_CASE("disks are measured for the first job that uses them, after others had their turn or measuring them failed") {
  const testing::CacheFolder folder;
  Machine machine{.name = cpu_name(), .threads = available_cpus(), .disks = "999:1"};
  machine.link_bytes_per_second[kRead] = machine.link_bytes_per_second[kWrite] = 1;
  machine.measured.link_bytes_per_second[kRead] = 1;
  machine.operations["matmul"] = {.compute = 1};
  cache_machine(machine, cpu_device());
  const std::vector<std::string> folders = {folder.path()};
  const auto check_measured = [&] {
    know_disks(machine, folders);
    CHECK(machine.disks == disks_of(folders));
    CHECK(machine.link_bytes_per_second[kRead] > 1e5);
    CHECK(machine.measured.link_bytes_per_second[kRead] == 0);
    const std::optional<Machine> cached = cached_machine(cpu_device());
    REQUIRE(cached.has_value());
    CHECK(cached->disks == machine.disks);
    CHECK(cached->link_bytes_per_second == machine.link_bytes_per_second);
    CHECK(cached->operations == machine.operations);
  };
  check_measured();
  machine.link_bytes_per_second[kWrite] = 0;
  check_measured();
  machine.link_bytes_per_second[kRead] = 7;  // as a run has corrected it
  know_disks(machine, folders);
  CHECK(machine.link_bytes_per_second[kRead] == 7);
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
