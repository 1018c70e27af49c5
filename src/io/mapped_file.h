// Maps a file into memory, for data of which a step reads a little here and there. Pages that were read count as
// resident memory until forget() is called or the system takes them back; nothing is ever written.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace spillway {

class MappedFile {
 public:
  // Throws InputError if there is no such regular file, MachineError if it cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;

  // Returns bytes that are valid while this lives. If the file has become shorter meanwhile, or its disk fails, reading
  // ends the program with a message (io/mapping_faults.h).
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  // Releases the memory of pages that were read.
  void forget() const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace spillway
