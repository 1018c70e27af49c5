// The bytes of a file, decompressed where the file is compressed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

namespace spillway::data {

// Reads the next bytes into the buffer; 0 at the end.
using ByteSource = std::function<size_t(char* into, size_t size)>;

// Of a regular file. Content that begins as gzip or Zstandard does is decompressed on the way, in bounded memory,
// whatever the file's name. Throws InputError, also later, where the compressed data is broken or cut short.
[[nodiscard]] ByteSource open_bytes(const std::filesystem::path& path);

// The same over another source, for content whose first bytes say how it is compressed; `name` stands for the file in
// messages.
[[nodiscard]] ByteSource decompress(ByteSource source, std::string name);

}  // namespace spillway::data
