// A folder in the place of the user's cache, for as long as it lives.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/temporary_folder.h"

namespace spillway::testing {

// Changes the environment: while no other thread reads it.
class CacheFolder {
 public:
  CacheFolder() {
    if (const char* before = std::getenv("XDG_CACHE_HOME")) before_ = before;
    setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  }
  ~CacheFolder() {
    if (before_) {
      setenv("XDG_CACHE_HOME", before_->c_str(), 1);
    } else {
      unsetenv("XDG_CACHE_HOME");
    }
  }
  CacheFolder(CacheFolder&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  std::optional<std::string> before_;
};

}  // namespace spillway::testing
