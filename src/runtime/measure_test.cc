#include "runtime/measure.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/bytes.h"
#include "runtime/computer.h"
#include "tests/support/temporary_folder.h"

using namespace spillway;

TEST_CASE("the computer's memory, disk and CPU have plausible sizes") {
  CHECK(total_memory_bytes() > 128 * kMiB);
  CHECK(available_memory_bytes() > 0);
  CHECK(available_memory_bytes() <= total_memory_bytes());
  CHECK(free_disk_bytes("/tmp/not/yet/there") == free_disk_bytes("/tmp"));
  CHECK_FALSE(cpu_name().empty());
}

TEST_CASE("the disk is measured without leaving a file") {
  const TemporaryFolder folder;
  const DiskRates rates = measure_disk(folder.path(), 8 * kMiB);
  CAPTURE(rates.problem);
  CHECK(rates.problem.empty());
  CHECK(rates.write_bytes_per_second > 1e5);
  CHECK(rates.read_bytes_per_second > 1e5);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a disk that cannot be measured says why") {
  CHECK_FALSE(measure_disk("/proc", 8 * kMiB).problem.empty());
  CHECK(measure_disk("/tmp", 1).problem == "less than 32.0 MiB free");
}

TEST_CASE("the machine is measured once and read from the cache afterwards") {
  const TemporaryFolder folder;
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string old = before == nullptr ? "" : before;
  setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  const Machine measured = this_machine(folder.path());
  CHECK(measured.matrix_flops_f32 > 1e8);
  CHECK(measured.memory_bytes_per_second > 1e8);
  CHECK(measured.operation_seconds > 0);
  const Machine cached = this_machine(folder.path());
  CHECK(cached.matrix_flops_f32 == measured.matrix_flops_f32);
  CHECK(cached.operation_seconds == measured.operation_seconds);
  std::ofstream(machine_cache_path()) << "{\"name\": 3";
  CHECK(this_machine(folder.path()).threads == measured.threads);
  if (before == nullptr) {
    unsetenv("XDG_CACHE_HOME");
  } else {
    setenv("XDG_CACHE_HOME", old.c_str(), 1);
  }
}
