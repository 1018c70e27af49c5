// Reads the limits that control groups set for this process (man 7 cgroups): SLURM, systemd, containers and users bound
// jobs so.
//
// The process's groups are named by /proc/self/cgroup, and the places of their files by /proc/self/mountinfo, for
// version 1 and 2 alike. A group is bound by the limits of all groups above it, so a limit is the least on the way up
// to the hierarchy's mount point. A file that is missing, or that says "max", sets no limit.
//
// Safe from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <vector>

namespace spillway {

class ControlGroups {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  // Finds the groups of this process now. Looks for /proc and mounts below `root`.
  explicit ControlGroups(const std::filesystem::path& root = "/");

  // Returns the bytes that the groups may use, or kNoLimit. Beyond `memory.high` a process is slowed down until it is
  // useless, so that counts as a limit, too.
  [[nodiscard]] int64_t memory_limit() const;
  // Returns the part of that limit that is left, or kNoLimit.
  [[nodiscard]] int64_t available_memory() const;
  // Returns CPU time per wall time; infinite without a quota.
  [[nodiscard]] double cpu_quota() const;

 private:
  std::vector<std::filesystem::path> memory_, cpu_;  // folders: groups and those above them
};

}  // namespace spillway
