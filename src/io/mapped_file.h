// A file seen as memory, for data of which a step reads a little here and there. What is read counts as resident memory
// until forget() is called or the system takes it back; nothing is ever written.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace spillway {

class MappedFile {
 public:
  // Throws InputError where there is no such regular file, MachineError where it cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;

  // Valid while this lives. Where the file has become shorter meanwhile, or its disk fails, reading ends the program
  // with a message (io/mapping_faults.h).
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  // Gives back the memory of what was read.
  void forget() const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace spillway
