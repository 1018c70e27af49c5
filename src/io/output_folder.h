// The rule for folders that a command writes: such a folder is new, is empty, or holds what the same command wrote
// there before; it is none of the command's inputs and holds none; and no file that a user has put there is removed or
// overwritten. The folder's record tells what a command wrote (io/folder_record.h).
//
// Errors: InputError for a folder that the rule refuses, before anything is written. Threads: one at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

struct FolderRecord;

// An input of a command: a file or a folder. One that does not exist is ignored.
struct CommandInput {
  std::string name;  // as the user knows it: "base_model"
  std::filesystem::path path;
};

// Refuses an output folder or file that is one of the inputs or a folder above one, and an existing file that is part
// of one, by device and inode, links resolved. `key` is the name of the output's option: "--out".
void check_apart(std::string_view key, const std::filesystem::path& output, std::span<const CommandInput> inputs);

// Checks the rule for a command that writes one file: the file must not exist, and its folder must.
void check_new_file(std::string_view key, const std::filesystem::path& file);
// Checks a file that may exist and is replaced: its folder must exist, and no folder may have its name.
void check_writable_place(std::string_view key, const std::filesystem::path& file);
// Refuses one file for two results. An empty path is ignored.
void check_different_files(std::string_view key, const std::filesystem::path& file, std::string_view other_key,
                           const std::filesystem::path& other);

// Checks the rule for a command that replaces the whole folder (io/atomic_folder.h): anything there must be as
// `command` has recorded it.
void check_replaceable(std::string_view key, const std::filesystem::path& folder, std::string_view command);

// A folder that a command writes file by file, beside what others keep there.
class SharedOutput {
 public:
  // `writes` returns whether the command may write or remove a file of that name; such a file must be as recorded,
  // except README.md, which its user may edit and a card's writer looks at itself. `checkpoint-STEP` is a folder. In a
  // folder that the command has never written to, only folders with records of their own and those of `known` may be.
  // Changes nothing.
  SharedOutput(std::string_view key, std::filesystem::path folder, std::string_view command,
               std::function<bool(std::string_view)> writes, std::span<const std::filesystem::path> known);
  SharedOutput(SharedOutput&&) noexcept;
  ~SharedOutput();

  // Records that the command is at work, and from now on each of its names before a file is written under it: a command
  // that was killed has written these, and no others. The folder must exist.
  void begin();
  // Records the files that it wrote.
  void finish() const;
  // Does the same for a command that ended early; removes the record if nothing else is in the folder.
  void abandon() const;

 private:
  class Journal;

  [[nodiscard]] std::vector<std::string> own_names() const;
  // Returns the record of the files as they are now.
  [[nodiscard]] FolderRecord record() const;

  std::filesystem::path folder_;
  std::string command_;
  std::function<bool(std::string_view)> writes_;
  std::unique_ptr<Journal> journal_;  // while the command is at work
};

}  // namespace spillway
