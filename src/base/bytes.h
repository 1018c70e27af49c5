// Formats and parses sizes in bytes for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

constexpr int64_t kKiB = int64_t{1} << 10;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

// The alignment that O_DIRECT requires of offsets, sizes and memory addresses on any disk of today.
constexpr int64_t kDiskAlignment = 4096;

// Returns "398.6 MiB", "12.0 GiB" or "512 B".
[[nodiscard]] std::string format_bytes(int64_t bytes);
// Returns the same rounded up, for sizes to which a budget may be set: parse_bytes() of it is `bytes` or a little more.
// REQUIRES: bytes >= 0.
[[nodiscard]] std::string format_bytes_up(int64_t bytes);

// Parses `4096`, `512MiB`, `12 GiB`, `1.5GiB`, `2GB` (10^9) or `80%` (of `whole`). `where` names the key in the error.
// Throws InputError for anything else, for negative sizes and for more than 2^62.
[[nodiscard]] int64_t parse_bytes(std::string_view text, int64_t whole, std::string_view where);

}  // namespace spillway
