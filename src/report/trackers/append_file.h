// A file to whose end a run appends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "io/file.h"

namespace spillway {

class AppendFile {
 public:
  AppendFile() = default;
  // Opens the file, creates it where there is none, and cuts it to `kept_bytes` where it is longer. Throws MachineError
  // if it cannot be written.
  AppendFile(std::filesystem::path path, int64_t kept_bytes);

  // Writes all of it in one call of the system where that takes it. Throws as AtomicFile does.
  void write(std::string_view bytes);
  void sync();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace spillway
