#include "runtime/computer.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "backend/host_memory.h"
#include "base/bytes.h"
#include "io/disk_space.h"

using namespace spillway;

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
