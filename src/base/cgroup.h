// What the control groups of this process allow it (man 7 cgroups): SLURM, systemd, containers and users bound jobs so.
//
// The process's groups are named by /proc/self/cgroup, and where their files are by /proc/self/mountinfo, for version 1
// and 2 alike. A group has what all groups above it have, so a limit is the least on the way up to where the hierarchy
// is mounted. A file that is not there, or that says "max", limits nothing.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <vector>

namespace spillway {

class ControlGroups {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  // Those of this process now. /proc and what is mounted are looked for below `root`.
  explicit ControlGroups(const std::filesystem::path& root = "/");

  // Bytes that the groups may use, or kNoLimit. Beyond `memory.high` a process is slowed down until it is useless, so
  // that counts as a limit, too.
  [[nodiscard]] int64_t memory_limit() const;
  // What is left of that, or kNoLimit.
  [[nodiscard]] int64_t available_memory() const;
  // CPU time per wall time; infinite without a quota.
  [[nodiscard]] double cpu_quota() const;

 private:
  std::vector<std::filesystem::path> memory_, cpu_;  // folders: groups and those above them
};

}  // namespace spillway
