// The checkpoints that a run has left.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace spillway::testing {

// Returns the names of the checkpoints in an output folder.
[[nodiscard]] inline std::set<std::string> checkpoints_in(const std::filesystem::path& output) {
  std::set<std::string> names;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(output)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("checkpoint-")) names.insert(name);
  }
  return names;
}

}  // namespace spillway::testing
