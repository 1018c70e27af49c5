// Computes the digests by which the hub names files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace spillway::hub {

// The kind of digest in an etag: 64 hexadecimal digits are the file's SHA-256 (LFS), 40 its git blob's SHA-1, which is
// that of "blob SIZE\0" and the bytes. Any other etag is none.
enum class DigestKind { kNone, kSha256, kGitBlob };
[[nodiscard]] DigestKind digest_kind(std::string_view etag);

// Returns the digest of a file, in lower-case hexadecimal digits. Calls `is_stopped` in between; if that returns true,
// the result is empty. REQUIRES: kind is not kNone. Throws as ReadFile.
[[nodiscard]] std::string file_digest(const std::filesystem::path& path, DigestKind kind,
                                      const std::function<bool()>& is_stopped);

}  // namespace spillway::hub
