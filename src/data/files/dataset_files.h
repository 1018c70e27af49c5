// Which files a dataset of the config means.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset_options.h"
#include "data/files/record_reader.h"
#include "hub/repository.h"

namespace spillway::data {

// The files of one split, in order: the path itself; data_files in it; what a pattern with *, ?, [..] or ** matches;
// what lies in a folder (split_files.h); or what the Hugging Face cache on this machine has for a name such as
// `tatsu-lab/alpaca` (hub_cache.h). Local files only. Throws InputError where there are none, saying where they were
// looked for and how to get them.
[[nodiscard]] std::vector<std::filesystem::path> dataset_files(const DatasetConfig& config, std::string_view split);

// The data set of the hub that `config.path` names, where it is no path, and no cache of this machine has it.
[[nodiscard]] std::optional<hub::Repository> missing_data_set(const DatasetConfig& config);

// Those of all splits that `config.split` names.
[[nodiscard]] std::vector<std::filesystem::path> dataset_files(const DatasetConfig& config);

// How a file is read: by ds_type, else by `path: json` and the like, else by its name, else as JSON. Throws InputError
// for a ds_type that does not exist.
[[nodiscard]] RecordFormat dataset_format(const DatasetConfig& config, const std::filesystem::path& file);

}  // namespace spillway::data
