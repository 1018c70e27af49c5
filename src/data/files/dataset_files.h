// Finds the files of a dataset of the config.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset_options.h"
#include "data/files/record_reader.h"
#include "data/files/split_slice.h"
#include "hub/repository.h"

namespace spillway::data {

// Returns the files of one split, in order: the path itself; data_files in it; the matches of a pattern with *, ?, [..]
// or **; the files in a folder (split_files.h); or the files in this machine's Hugging Face cache for a name such as
// `tatsu-lab/alpaca` (hub_cache.h). Local files only. Throws InputError if there are none, saying where they were
// looked for and how to get them.
[[nodiscard]] std::vector<std::filesystem::path> dataset_files(const DatasetConfig& config, std::string_view split);

// Returns the hub data set that `config.path` names, if it is not a path and not in a cache of this machine.
[[nodiscard]] std::optional<hub::Repository> missing_data_set(const DatasetConfig& config);

// Returns the parts of splits that `config.split` names. Where it is empty, the split that evaluates, as in axolotl:
// test, or the only one that there is. Throws InputError if there are others alone.
[[nodiscard]] std::vector<SplitSlice> slices_of(const DatasetConfig& config);

// Returns the files of all these splits.
[[nodiscard]] std::vector<std::filesystem::path> dataset_files(const DatasetConfig& config);

// Returns the format of a file: by ds_type, else by `path: json` and the like, else by its name, else JSON. Throws
// InputError for an unknown ds_type.
[[nodiscard]] RecordFormat dataset_format(const DatasetConfig& config, const std::filesystem::path& file);

}  // namespace spillway::data
