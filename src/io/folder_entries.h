// What a folder holds, and its removal. std::filesystem's iterators allocate in functions that are noexcept: memory
// that runs out there would end the program without a message.
//
// Threads: any.
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

// By name. None where there is no such folder. Throws InputError or MachineError, which name the folder, where it
// cannot be read, and std::bad_alloc.
[[nodiscard]] std::vector<FolderEntry> entries_of(const std::filesystem::path& folder);
// The same for who only tidies: none, too, where the folder cannot be read.
[[nodiscard]] std::vector<FolderEntry> readable_entries_of(const std::filesystem::path& folder);

// The regular files of a folder and of those below it, by their paths within it; the names of links and the like go to
// `others` where it is given.
[[nodiscard]] std::vector<std::string> files_below(const std::filesystem::path& folder,
                                                   std::vector<std::string>* others = nullptr);

// Removes a file, or a folder with all below it. Links are removed, not followed. What cannot be removed stays.
void remove_tree(const std::filesystem::path& path) noexcept;

}  // namespace spillway
