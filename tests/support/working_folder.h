// A folder of a test's own that the process works in while it lives.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/temporary_folder.h"

namespace spillway::testing {

// Python imports from there, and leaves nothing.
class WorkingFolder {
 public:
  WorkingFolder() {
    std::filesystem::current_path(folder_.path());
    ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  }
  ~WorkingFolder() { std::filesystem::current_path(before_); }
  WorkingFolder(WorkingFolder&&) = delete;

  void write(const std::string& name, std::string_view text) const { std::ofstream(folder_.path() / name) << text; }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(folder_.path() / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
  TemporaryFolder folder_;
};

}  // namespace spillway::testing
