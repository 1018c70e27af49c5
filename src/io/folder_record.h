// `.spillway.json`: what a command has written into a folder. It is what tells a folder of ours from a user's, and our
// files in it from theirs.
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

  // Of a file that a command at work is about to write, or has begun to: neither is known.
  [[nodiscard]] bool is_open() const { return bytes == 0 && xxh3.empty(); }
};
constexpr int64_t kMaxSummedBytes = int64_t{32} << 20;

struct FolderRecord {
  std::string command;       // "merge"
  bool is_complete = false;  // otherwise the command is at work, or ended early
  std::vector<RecordedFile> files;
};

// The record of `names` as they are now.
[[nodiscard]] FolderRecord record_of(const std::filesystem::path& folder, std::string_view command,
                                     const std::vector<std::string>& names);
[[nodiscard]] std::string record_text(const FolderRecord& record);

// Nothing where a folder has none that can be read.
[[nodiscard]] std::optional<FolderRecord> read_record(const std::filesystem::path& folder);

// Writes it; the file is complete or not there, as any of ours.
void write_record(const std::filesystem::path& folder, const FolderRecord& record);

// A folder whose record is empty is being written for the first time, and all in it is of its writer.
void mark_unfinished(const std::filesystem::path& folder);
[[nodiscard]] bool is_unfinished(const std::filesystem::path& folder);

// Whether the file is there as it was recorded; one that was recorded as open may be anything.
[[nodiscard]] bool is_unchanged(const std::filesystem::path& folder, const RecordedFile& file);

// Removes the files that the folder's record names, then folders that are empty, the record and the folder itself. What
// somebody else has put there stays, with the record. Returns whether the folder is gone. A folder without a record is
// removed where it is empty.
bool remove_recorded(const std::filesystem::path& folder);

}  // namespace spillway
