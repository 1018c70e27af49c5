// When a file's content was last changed, as far as the file system says.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>

namespace spillway {

// Two versions of a path are equal if no program wrote into the file between them, and differ if one did, but for
// writes within a tick of the kernel's clock (some 4 ms). No program can set `status_changed` back; copies that keep
// times
// (`cp -p`, `rsync -t`) and `touch -d` set `modified`.
struct FileVersion {
  int64_t bytes = 0;
  int64_t modified = 0;        // in nanoseconds since 1970
  int64_t status_changed = 0;  // the same

  auto operator<=>(const FileVersion&) const = default;
};

// Throws std::filesystem::filesystem_error where there is no such file.
[[nodiscard]] FileVersion file_version(const std::filesystem::path& path);

}  // namespace spillway
