// Finds the disks of folders, and their free space. The folders need not exist yet. Safe from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace spillway {

// Returns the folder, or the nearest existing one above it.
[[nodiscard]] std::filesystem::path existing_folder(const std::filesystem::path& folder);

// Returns the numbers that the system gives the file systems of these folders, in ascending order: "8:1 259:3". Folders
// with equal text stripe data over the same disks in the same shares.
[[nodiscard]] std::string disks_of(std::span<const std::string> folders);

// Returns the free bytes of the file system that holds `folder`; nullopt if the system does not say.
[[nodiscard]] std::optional<int64_t> known_free_bytes(const std::filesystem::path& folder);
// Returns the same, 0 if the system does not say.
[[nodiscard]] int64_t free_disk_bytes(const std::filesystem::path& folder);
// Throws MachineError, which names `folder`, if it is known to have no room for so many bytes. To be called before long
// work that writes them.
void check_disk_room(const std::filesystem::path& folder, int64_t bytes);
// Returns the bytes that can be striped evenly over these folders, some of which may be on one file system. REQUIRES:
// at least one.
[[nodiscard]] int64_t free_striped_bytes(std::span<const std::string> folders);

}  // namespace spillway
