#include "base/cgroup.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <string>

#include "base/temporary_folder.h"

namespace fs = std::filesystem;
using namespace spillway;

namespace {

// A made-up /proc and /sys.
class Tree {
 public:
  void write(const fs::path& name, const std::string& text) const {
    fs::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name) << text << '\n';
  }
  [[nodiscard]] ControlGroups groups() const { return ControlGroups(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

constexpr const char* kUnified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";

}  // namespace

TEST_CASE("a limit of version 2 is the least of the group's own and of those above it") {
  const Tree tree;
  tree.write("proc/self/cgroup", "0::/system.slice/slurm: 7.scope/step");
  tree.write("proc/self/mountinfo", std::string("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n") + kUnified);
  CHECK(tree.groups().memory_limit() == ControlGroups::kNoLimit);
  CHECK(tree.groups().available_memory() == ControlGroups::kNoLimit);
  CHECK(std::isinf(tree.groups().cpu_quota()));

  tree.write("sys/fs/cgroup/system.slice/slurm: 7.scope/step/memory.max", "max");
  tree.write("sys/fs/cgroup/system.slice/slurm: 7.scope/step/cpu.max", "max 100000");
  tree.write("sys/fs/cgroup/system.slice/slurm: 7.scope/memory.max", "1000");
  tree.write("sys/fs/cgroup/system.slice/slurm: 7.scope/memory.current", "900");
  tree.write("sys/fs/cgroup/system.slice/slurm: 7.scope/memory.stat", "anon 1\ninactive_file 300\nactive_file 7");
  tree.write("sys/fs/cgroup/system.slice/slurm: 7.scope/cpu.max", "150000 100000");
  tree.write("sys/fs/cgroup/system.slice/memory.max", "2000");
  tree.write("sys/fs/cgroup/system.slice/memory.current", "1950");
  tree.write("sys/fs/cgroup/system.slice/cpu.max", "800000 100000");
  tree.write("sys/fs/cgroup/elsewhere/memory.max", "1");
  CHECK(tree.groups().memory_limit() == 1000);
  CHECK(tree.groups().available_memory() == 50);  // of the group above, whose others use more
  CHECK(tree.groups().cpu_quota() == 1.5);

  tree.write("sys/fs/cgroup/system.slice/memory.high", "900");
  CHECK(tree.groups().memory_limit() == 900);
  CHECK(tree.groups().available_memory() == 0);
}

TEST_CASE("version 1 has a hierarchy for each controller, under names of its own") {
  const Tree tree;
  tree.write("proc/self/cgroup",
             "9:name=systemd:/job\n4:memory:/slurm/job_1\n3:cpuset:/other\n2:cpu,cpuacct:/batch\n0::/job");
  tree.write("proc/self/mountinfo",
             "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
             "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
             "36 31 0:33 / /sys/fs/cgroup/cpu\\040and\\040more rw shared:1 master:2 - cgroup cgroup rw,cpu,cpuacct\n"
             "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  tree.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000");
  tree.write("sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes", "800");
  tree.write("sys/fs/cgroup/memory/slurm/job_1/memory.usage_in_bytes", "500");
  tree.write("sys/fs/cgroup/memory/slurm/job_1/memory.stat", "inactive_file 1\ntotal_inactive_file 100");
  tree.write("sys/fs/cgroup/cpu and more/batch/cpu.cfs_quota_us", "50000");
  tree.write("sys/fs/cgroup/cpu and more/batch/cpu.cfs_period_us", "100000");
  tree.write("sys/fs/cgroup/cpu and more/cpu.cfs_quota_us", "-1");
  tree.write("sys/fs/cgroup/cpu and more/cpu.cfs_period_us", "100000");
  CHECK(tree.groups().memory_limit() == 800);
  CHECK(tree.groups().available_memory() == 400);
  CHECK(tree.groups().cpu_quota() == 0.5);
}

TEST_CASE("in a container the mount shows the process's own group, by whatever name the host has for it") {
  for (const char* mounted : {"/docker/1f", "/docker/elsewhere", "/../.."}) {
    CAPTURE(mounted);
    const Tree tree;
    tree.write("proc/self/cgroup", "4:memory:/docker/1f");
    tree.write("proc/self/mountinfo",
               std::string("35 31 0:32 ") + mounted + " /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory");
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "800");
    CHECK(tree.groups().memory_limit() == 800);
    CHECK(tree.groups().available_memory() == 800);
  }
}

TEST_CASE("a system without control groups limits nothing") {
  const Tree tree;
  CHECK(tree.groups().memory_limit() == ControlGroups::kNoLimit);
  CHECK(std::isinf(tree.groups().cpu_quota()));
}
