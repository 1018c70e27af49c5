// The data files of a folder by split, as the datasets library finds them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace spillway::data {

// Paths that match a pattern: * and ? within a name, [a-z], and ** for any folders. Sorted; hidden files and folders,
// and folders that begin with __, only where the pattern spells them. No match is an empty list. Throws InputError for
// a folder on the way that cannot be read, as its files would be missing.
[[nodiscard]] std::vector<std::filesystem::path> match_files(const std::string& pattern);
// The same below a folder whose own name is no pattern, whatever characters it has.
[[nodiscard]] std::vector<std::filesystem::path> match_files(const std::filesystem::path& folder,
                                                             const std::string& pattern);
[[nodiscard]] bool has_wildcards(std::string_view path);

// In this order: what `save_to_disk` left (state.json, or a folder a split); what README.md says of the config `name`;
// data/SPLIT-00000-of-00001.*; folders, then files, named for splits (train, validation, test and their kin); all data
// files as the split `train`. A `name` that README.md does not have is a folder. Throws InputError where the split or
// the config is not there, naming those that are.
[[nodiscard]] std::vector<std::filesystem::path> split_files(const std::filesystem::path& folder, std::string_view name,
                                                             std::string_view split);

// The same by the names of files and folders alone.
[[nodiscard]] std::vector<std::filesystem::path> split_files_by_name(const std::filesystem::path& folder,
                                                                     std::string_view split);

// That the data at `place` has the splits `names` but not `split`.
[[nodiscard]] InputError no_such_split(const std::filesystem::path& place, std::string_view names,
                                       std::string_view split);

}  // namespace spillway::data
