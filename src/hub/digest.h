// The digests that the hub names files by.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace spillway::hub {

// What an etag says of a file's bytes: 64 hexadecimal digits are its SHA-256 (LFS), 40 its git blob's SHA-1, which is
// of "blob SIZE\0" and the bytes. Anything else says nothing.
enum class DigestKind { kNone, kSha256, kGitBlob };
[[nodiscard]] DigestKind digest_kind(std::string_view etag);

// Of a file, in lower-case hexadecimal digits. `is_stopped` is asked in between; where it says true, the result is
// empty. REQUIRES: kind is not kNone. Throws as ReadFile.
[[nodiscard]] std::string file_digest(const std::filesystem::path& path, DigestKind kind,
                                      const std::function<bool()>& is_stopped);

}  // namespace spillway::hub
