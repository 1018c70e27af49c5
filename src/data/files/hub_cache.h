// Data sets that the Hugging Face libraries have left on this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "hub/repository.h"

namespace spillway::data {

// The files of a split of the data set `path` (`owner/name`, or `name`): out of the newest snapshot of the hub's cache
// (HF_HUB_CACHE, or hub in HF_HOME; `revision` names another), else out of what the datasets library prepared
// (HF_DATASETS_CACHE, or datasets in HF_HOME). HF_HOME is ~/.cache/huggingface by default. Throws InputError where
// neither has it, saying where it was looked for and how to get it.
[[nodiscard]] std::vector<std::filesystem::path> hub_files(std::string_view path, std::string_view name,
                                                           std::string_view revision, std::string_view split);

// The folder of its snapshot; empty where the cache has none.
[[nodiscard]] std::filesystem::path hub_snapshot(std::string_view path, std::string_view revision);

// What is to be fetched where neither has it.
[[nodiscard]] std::optional<hub::Repository> missing_on_hub(std::string_view path, std::string_view revision);

// Whether `path` is spelled like the name of a data set rather than that of a file.
[[nodiscard]] bool is_hub_name(std::string_view path);

}  // namespace spillway::data
