// Finds the data files of a folder by split, as the datasets library does.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace spillway::data {

// Returns the paths that match a pattern, sorted: * and ? within a name, [a-z], and ** for any folders. Hidden files
// and folders, and folders that begin with __, only match if the pattern spells them. No match is an empty list. Throws
// InputError for an unreadable folder on the way, whose files would be missing.
[[nodiscard]] std::vector<std::filesystem::path> match_files(const std::string& pattern);
// The same below a folder whose own name is not a pattern, whatever characters it has.
[[nodiscard]] std::vector<std::filesystem::path> match_files(const std::filesystem::path& folder,
                                                             const std::string& pattern);
[[nodiscard]] bool has_wildcards(std::string_view path);

// Returns the files of a split by the first of these that applies: the output of `save_to_disk` (state.json, or a
// folder per split); the config `name` in README.md; data/SPLIT-00000-of-00001.*; folders, then files, named after
// splits (train, validation, test and their synonyms); all data files as the split `train`. Of files of several
// formats, those of the most common one are read, as by the datasets library. A `name` that README.md does not have is
// a folder. Throws InputError if the split or the config does not exist, naming those that do.
[[nodiscard]] std::vector<std::filesystem::path> split_files(const std::filesystem::path& folder, std::string_view name,
                                                             std::string_view split);

// The same by the names of files and folders alone.
[[nodiscard]] std::vector<std::filesystem::path> split_files_by_name(const std::filesystem::path& folder,
                                                                     std::string_view split);

// The error for data that has other splits than the one asked for.
class NoSuchSplit : public InputError {
 public:
  // `names` are those that the data at `place` has, with ", " between them.
  NoSuchSplit(const std::filesystem::path& place, const std::string& names, std::string_view split);
  // Returns the one split that there is; empty if there are several.
  [[nodiscard]] const std::string& only() const { return only_; }

 private:
  std::string only_;
};

}  // namespace spillway::data
