// The processes of the ranks of a job that a test has started.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace spillway::testing {

// Returns the processes that have come from this one, directly or through others.
inline std::vector<pid_t> processes_below() {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    std::string state;
    pid_t process = 0, parent = 0;
    std::ifstream file(at->path() / "stat");
    if (file >> process && file.ignore(64, ')') && file >> state >> parent) children.emplace(parent, process);
  }
  std::vector<pid_t> found = {::getpid()};
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [begin, end] = children.equal_range(found[i]);
    for (auto child = begin; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

// Returns the process of a rank that mpirun has started. REQUIRES: one job runs.
inline pid_t process_of_rank(int rank) {
  const std::string variable = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
  for (const pid_t process : processes_below()) {
    std::ifstream variables("/proc/" + std::to_string(process) + "/environ");
    for (std::string one; std::getline(variables, one, '\0');)
      if (one == variable) return process;
  }
  throw std::runtime_error("no such rank");
}

// Returns false for a process that has ended, whether or not somebody has waited for it.
inline bool is_running(pid_t process) {
  std::string state;
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  return file.ignore(256, ')') && file >> state && state != "Z" && state != "X";
}

}  // namespace spillway::testing
