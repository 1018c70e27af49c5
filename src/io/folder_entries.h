// Lists the entries of a folder, and removes it. std::filesystem's iterators allocate in functions that are noexcept:
// if memory ran out there, the program would end without a message.
//
// Safe from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace spillway {

enum class EntryKind : uint8_t { kFile, kFolder, kOther };  // kOther: links, pipes, devices

struct FolderEntry {
  std::string name;
  EntryKind kind = EntryKind::kOther;  // of the entry itself: links are not followed
};

// Returns the entries by name; none if there is no such folder. Throws InputError or MachineError, which name the
// folder, if it cannot be read, and std::bad_alloc.
[[nodiscard]] std::vector<FolderEntry> entries_of(const std::filesystem::path& folder);
// Does the same for cleaning up: also returns none if the folder cannot be read.
[[nodiscard]] std::vector<FolderEntry> readable_entries_of(const std::filesystem::path& folder);

// Returns the regular files of a folder and of those below it, by their paths within it; the names of links and the
// like go to `others` if it is given.
[[nodiscard]] std::vector<std::string> files_below(const std::filesystem::path& folder,
                                                   std::vector<std::string>* others = nullptr);

// Removes a file, or a folder with all below it. Links are removed, not followed. Entries that cannot be removed stay.
void remove_tree(const std::filesystem::path& path) noexcept;

}  // namespace spillway
