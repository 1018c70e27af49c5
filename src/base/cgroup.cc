#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace spillway {
namespace fs = std::filesystem;

namespace {

// A line of /proc/self/cgroup, "ID:CONTROLLERS:PATH". Version 2 has one, which names no controllers.
struct Membership {
  std::string controllers;
  fs::path path;
};

std::vector<Membership> memberships_in(const fs::path& file) {
  std::vector<Membership> memberships;
  std::ifstream lines(file);
  std::string id, controllers, path;
  while (std::getline(lines, id, ':') && std::getline(lines, controllers, ':') && std::getline(lines, path))
    memberships.push_back({controllers, path});
  return memberships;
}

// A line of /proc/self/mountinfo, "ID PARENT DEVICE ROOT POINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS".
struct Mount {
  fs::path root;  // the group that is seen at the mount point
  fs::path point;
  std::string type, options;
};

// Decodes a path, in which a blank is written as \040, and so are other characters that would be taken for separators.
std::string without_escapes(std::string_view text) {
  const auto is_octal = [&](size_t at) { return text[at] >= '0' && text[at] <= '7'; };
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 3 < text.size() && is_octal(at + 1) && is_octal(at + 2) && is_octal(at + 3)) {
      plain += static_cast<char>(std::stoi(std::string(text.substr(at + 1, 3)), nullptr, 8));
      at += 3;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

std::vector<Mount> mounts_in(const fs::path& file) {
  std::vector<Mount> mounts;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, device, root, point, word, type, source, options;
    words >> id >> parent >> device >> root >> point;
    while (words >> word && word != "-") continue;
    if (words >> type >> source >> options)
      mounts.push_back({without_escapes(root), without_escapes(point), type, options});
  }
  return mounts;
}

// Returns true if `list`, of words between commas, has `word`.
bool has_word(const std::string& list, std::string_view word) {
  std::istringstream words(list);
  for (std::string one; std::getline(words, one, ',');) {
    if (one == word) return true;
  }
  return false;
}

// Adds the folders of a process's group and of those above it, as far as the mount shows them. A mount that does not
// show the group shows one above it: then only the top is known.
void add_groups(const fs::path& root, const Mount& mount, const fs::path& group, std::vector<fs::path>& folders) {
  const fs::path top = root / mount.point.relative_path();
  const fs::path below = group.lexically_relative(mount.root);
  if (!below.empty() && *below.begin() != "..") {
    for (fs::path at = below; !at.empty() && at != "."; at = at.parent_path()) folders.push_back(top / at);
  }
  folders.push_back(top);
}

std::vector<fs::path> groups_with(std::string_view controller, const fs::path& root,
                                  const std::vector<Membership>& memberships, const std::vector<Mount>& mounts) {
  std::vector<fs::path> folders;
  for (const Mount& mount : mounts) {
    const bool is_unified = mount.type == "cgroup2";
    if (!is_unified && (mount.type != "cgroup" || !has_word(mount.options, controller))) continue;
    for (const Membership& membership : memberships) {
      if (is_unified ? membership.controllers.empty() : has_word(membership.controllers, controller))
        add_groups(root, mount, membership.path, folders);
    }
  }
  return folders;
}

std::optional<int64_t> number_in(const fs::path& file) {
  std::ifstream text(file);
  int64_t number = 0;
  if (text >> number) return number;
  return {};
}

// Returns the number behind `key` in a file of lines "KEY NUMBER".
std::optional<int64_t> number_behind(std::string_view key, const fs::path& file) {
  std::ifstream text(file);
  std::string name;
  for (int64_t number = 0; text >> name >> number;) {
    if (name == key) return number;
  }
  return {};
}

int64_t memory_limit_of(const fs::path& group) {
  int64_t limit = ControlGroups::kNoLimit;
  for (const char* name : {"memory.max", "memory.high", "memory.limit_in_bytes"})
    limit = std::min(limit, number_in(group / name).value_or(ControlGroups::kNoLimit));
  return limit;
}

// Returns the bytes in use without files that a group has read, which count as its own until others need the memory.
// Version 1 counts those of the groups below under a name of their own.
int64_t used_memory_of(const fs::path& group) {
  std::optional<int64_t> used = number_in(group / "memory.current");
  if (!used) used = number_in(group / "memory.usage_in_bytes");
  std::optional<int64_t> reclaimable = number_behind("total_inactive_file", group / "memory.stat");
  if (!reclaimable) reclaimable = number_behind("inactive_file", group / "memory.stat");
  return std::max<int64_t>(0, used.value_or(0) - reclaimable.value_or(0));
}

double cpu_quota_of(const fs::path& group) {
  std::ifstream text(group / "cpu.max");
  double quota = -1, period = 0;
  if (text >> quota >> period && period > 0) return quota / period;
  quota = static_cast<double>(number_in(group / "cpu.cfs_quota_us").value_or(-1));
  period = static_cast<double>(number_in(group / "cpu.cfs_period_us").value_or(0));
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

}  // namespace

ControlGroups::ControlGroups(const fs::path& root) {
  const std::vector<Membership> memberships = memberships_in(root / "proc/self/cgroup");
  const std::vector<Mount> mounts = mounts_in(root / "proc/self/mountinfo");
  memory_ = groups_with("memory", root, memberships, mounts);
  cpu_ = groups_with("cpu", root, memberships, mounts);
}

int64_t ControlGroups::memory_limit() const {
  int64_t limit = kNoLimit;
  for (const fs::path& group : memory_) limit = std::min(limit, memory_limit_of(group));
  return limit;
}

int64_t ControlGroups::available_memory() const {
  int64_t available = kNoLimit;
  for (const fs::path& group : memory_) {
    const int64_t limit = memory_limit_of(group);
    if (limit != kNoLimit) available = std::min(available, std::max<int64_t>(0, limit - used_memory_of(group)));
  }
  return available;
}

double ControlGroups::cpu_quota() const {
  double quota = std::numeric_limits<double>::infinity();
  for (const fs::path& group : cpu_) quota = std::min(quota, cpu_quota_of(group));
  return quota;
}

}  // namespace spillway
