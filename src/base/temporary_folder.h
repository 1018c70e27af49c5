// A temporary folder, removed with its contents at the end of its life.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace spillway {

class TemporaryFolder {
 public:
  // Throws std::runtime_error.
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "spillway-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder at " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(TemporaryFolder&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace spillway
