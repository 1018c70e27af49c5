// `.spillway.json`, the record of the files that a command has written into a folder. It distinguishes a folder of ours
// from a user's, and our files in it from theirs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

constexpr const char* kRecordName = ".spillway.json";

struct RecordedFile {
  std::string name;  // its path within the folder
  int64_t bytes = 0;
  std::string xxh3;  // of files up to kMaxSummedBytes, which are those that people edit

  // Returns true for a file that a command at work is about to write or has begun: neither size nor sum is known.
  [[nodiscard]] bool is_open() const { return bytes == 0 && xxh3.empty(); }
};
constexpr int64_t kMaxSummedBytes = int64_t{32} << 20;

struct FolderRecord {
  std::string command;       // "merge"
  bool is_complete = false;  // otherwise the command is at work, or ended early
  std::vector<RecordedFile> files;
};

// Makes the record of `names` as they are now.
[[nodiscard]] FolderRecord record_of(const std::filesystem::path& folder, std::string_view command,
                                     const std::vector<std::string>& names);
[[nodiscard]] std::string record_text(const FolderRecord& record);

// Returns nullopt if the folder has no readable record.
[[nodiscard]] std::optional<FolderRecord> read_record(const std::filesystem::path& folder);

// Writes the record atomically, like any of our files.
void write_record(const std::filesystem::path& folder, const FolderRecord& record);

// Mark and detect a folder that is being written for the first time, by an empty record: all in it is its writer's.
void mark_unfinished(const std::filesystem::path& folder);
[[nodiscard]] bool is_unfinished(const std::filesystem::path& folder);

// Returns true if the file is as it was recorded; one that was recorded as open may be anything.
[[nodiscard]] bool is_unchanged(const std::filesystem::path& folder, const RecordedFile& file);

// Removes the files that the folder's record names, then folders that are empty, the record and the folder itself.
// Files of others stay, with the record. Returns true if the folder is gone. A folder without a record is removed if it
// is empty.
bool remove_recorded(const std::filesystem::path& folder);

}  // namespace spillway
