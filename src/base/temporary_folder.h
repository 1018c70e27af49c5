// A temporary folder, removed with its contents at the end of its life.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.h"

namespace spillway {

class TemporaryFolder {
 public:
  // Throws MachineError where none can be made in TMPDIR (/tmp).
  TemporaryFolder() {
    std::error_code error;
    const std::filesystem::path place = std::filesystem::temp_directory_path(error);
    std::string pattern = (place / "spillway-XXXXXX").string();
    if (!error && ::mkdtemp(pattern.data()) == nullptr) error.assign(errno, std::generic_category());
    if (error) {
      throw machine_error("TMPDIR",
                          "expected to make a temporary folder in {}, got \"{}\"; set TMPDIR to a folder that can be "
                          "written, or make room",
                          place.empty() ? "the folder that it names" : place.string(), error.message());
    }
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
