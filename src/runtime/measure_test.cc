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

#include "backend/device.h"
#include "base/bytes.h"
#include "base/parallel.h"
#include "runtime/computer.h"
#include "tests/support/cache_folder.h"
#include "tests/support/temporary_folder.h"

using namespace spillway;

TEST_CASE("the computer's memory, disk and CPU have plausible sizes") {
  CHECK(total_memory_bytes() > 128 * kMiB);
  CHECK(available_memory_bytes() > 0);
  CHECK(available_memory_bytes() <= total_memory_bytes());
  CHECK(free_disk_bytes("/tmp/not/yet/there") == free_disk_bytes("/tmp"));
  CHECK_FALSE(cpu_name().empty());
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
  const DiskRates rates = measure_disk(folder.path(), 8 * kMiB);
  CAPTURE(rates.problem);
  CHECK(rates.problem.empty());
  CHECK(rates.write_bytes_per_second > 1e5);
  CHECK(rates.read_bytes_per_second > 1e5);
  CHECK(rates.read_beside_write > 1e5);
  CHECK(rates.write_beside_read > 1e5);
  CHECK(rates.read_latency_seconds < 1);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("what lanes lose to each other follows from their rates alone and together") {
  Machine machine;
  set_disk(machine, {.write_bytes_per_second = 4e9,
                     .read_bytes_per_second = 2e9,
                     .write_beside_read = 1e9,
                     .read_beside_write = 2.1e9,
                     .write_latency_seconds = 1e-3});
  const auto read = static_cast<size_t>(Lane::kDiskRead), write = static_cast<size_t>(Lane::kDiskWrite);
  CHECK(machine.link_bytes_per_second[write] == 4e9);
  CHECK(machine.opposite_share[write] == doctest::Approx(0.75));
  CHECK(machine.opposite_share[read] == 0);
  CHECK(machine.link_latency_seconds[write] == 1e-3);
  set_disk(machine, {.problem = "full"});
  CHECK(machine.link_bytes_per_second[read] == 0);
  CHECK(machine.opposite_share[write] == 0);
}

TEST_CASE("a disk that cannot be measured says why") {
  CHECK_FALSE(measure_disk("/proc", 8 * kMiB).problem.empty());
  CHECK(measure_disk("/tmp", 1).problem == "less than 32.0 MiB free");
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
  const Machine measured = this_machine(folder.path());
  CHECK(measured.matrix_flops_f32 > 1e8);
  CHECK(measured.memory_bytes_per_second > 1e8);
  CHECK(measured.operation_seconds > 0);
  const Machine cached = this_machine(folder.path());
  CHECK(cached.matrix_flops_f32 == measured.matrix_flops_f32);
  CHECK(cached.operation_seconds == measured.operation_seconds);
  std::ofstream(machine_cache_path()) << "{\"name\": 3";
  CHECK(this_machine(folder.path()).threads == measured.threads);
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
