// The bytes of a file, decompressed if necessary.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

namespace spillway::data {

// Reads the next bytes into the buffer and returns how many; 0 at the end.
using ByteSource = std::function<size_t(char* into, size_t size)>;

// Opens a regular file. Decompresses content that begins as gzip or Zstandard, in bounded memory, whatever the file's
// name. Throws InputError, also while reading, if the compressed data is corrupt or truncated.
[[nodiscard]] ByteSource open_bytes(const std::filesystem::path& path);

// The same for another source whose first bytes say how it is compressed; `name` stands for the file in messages.
[[nodiscard]] ByteSource decompress(ByteSource source, std::string name);

}  // namespace spillway::data
