// Data sets in the caches of the Hugging Face libraries on this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "hub/repository.h"

namespace spillway::data {

// Returns the files of a split of the data set `path` (`owner/name`, or `name`): from the newest snapshot in the hub's
// cache (HF_HUB_CACHE, or hub in HF_HOME; `revision` names another), else from those that the datasets library prepared
// (HF_DATASETS_CACHE, or datasets in HF_HOME). HF_HOME is ~/.cache/huggingface by default. Throws InputError if neither
// has it, saying where it was looked for and how to get it.
[[nodiscard]] std::vector<std::filesystem::path> hub_files(std::string_view path, std::string_view name,
                                                           std::string_view revision, std::string_view split);

// Returns the folder of its snapshot; empty if the cache has none.
[[nodiscard]] std::filesystem::path hub_snapshot(std::string_view path, std::string_view revision);

// Returns the data set to download if neither cache has it.
[[nodiscard]] std::optional<hub::Repository> missing_on_hub(std::string_view path, std::string_view revision);

// Returns true if `path` is spelled like the name of a data set rather than that of a file.
[[nodiscard]] bool is_hub_name(std::string_view path);

}  // namespace spillway::data
