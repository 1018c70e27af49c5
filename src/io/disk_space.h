// Which disks folders are on, and how much room they have. The folders need not exist yet. Any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace spillway {

// The folder, or the nearest one above it that is there.
[[nodiscard]] std::filesystem::path existing_folder(const std::filesystem::path& folder);

// "8:1 259:3": the numbers that the system gives the file systems of these folders, in ascending order. Over
// folders with equal text, data is striped over the same disks in the same shares.
[[nodiscard]] std::string disks_of(std::span<const std::string> folders);

// Free bytes of the file system that holds `folder`; none where the system does not say.
[[nodiscard]] std::optional<int64_t> known_free_bytes(const std::filesystem::path& folder);
// The same, 0 where it does not say.
[[nodiscard]] int64_t free_disk_bytes(const std::filesystem::path& folder);
// Throws MachineError, which names `folder`, where it is known that so many bytes have no room there. Before a long
// piece of work writes them.
void check_disk_room(const std::filesystem::path& folder, int64_t bytes);
// What can be striped evenly over these folders, some of which may be on one file system. REQUIRES: at least one.
[[nodiscard]] int64_t free_striped_bytes(std::span<const std::string> folders);

}  // namespace spillway
