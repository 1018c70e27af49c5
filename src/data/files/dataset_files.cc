#include "data/files/dataset_files.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/files/hub_cache.h"
#include "data/files/record_parsers.h"
#include "data/files/split_files.h"
#include "data/files/split_slice.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool has_format(const std::string& path) { return format_named(path) || format_of(path); }

// Returns true if the path is the name of a data set on the hub.
bool is_on_hub(const DatasetConfig& config) {
  return is_hub_name(config.path) && !has_format(config.path) && !is_there(config.path);
}

// Returns the folder of the dataset's files: only `data_dir` if `path` merely names a format.
fs::path base_folder(const DatasetConfig& config) {
  if (is_on_hub(config)) return hub_snapshot(config.path, config.revision) / config.data_dir;
  const bool is_format = !config.data_dir.empty() && format_named(config.path) && !is_there(config.path);
  return is_format ? fs::path(config.data_dir) : fs::path(config.path) / config.data_dir;
}

// Returns the files of a name or a pattern, in the dataset's folder, or else by the name alone.
std::vector<fs::path> named_files(const DatasetConfig& config, const std::string& name) {
  for (const fs::path& folder : {base_folder(config), fs::path()}) {
    if (is_there(folder / name)) return {folder / name};
    if (!has_wildcards(name)) continue;
    auto files = match_files(folder, name);
    if (!files.empty()) return files;
  }
  throw input_error("data_files", "expected files in {} or here, got {}, which matches none; correct it", config.path,
                    quote(name));
}

// As the datasets library looks through `data_dir`: README.md and what save_to_disk left are those of `path`.
std::vector<fs::path> files_of_data_dir(const DatasetConfig& config, std::string_view split) {
  if (missing_data_set(config)) return hub_files(config.path, config.name, config.revision, split);  // which says so
  const fs::path folder = base_folder(config);
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) return split_files_by_name(folder, split);
  throw input_error("data_dir", "expected a folder in {}, got {}, which is none; correct it", config.path,
                    quote(config.data_dir));
}

}  // namespace

std::vector<fs::path> dataset_files(const DatasetConfig& config, std::string_view split) {
  std::vector<fs::path> files;
  // As in the datasets library, paths of files have only the split train.
  const auto check_split = [&](const fs::path& place) {
    if (split != "train") throw NoSuchSplit(place, "train", split);
  };
  for (const std::string& name : config.data_files) {
    check_split(name);
    const auto matched = named_files(config, name);
    files.insert(files.end(), matched.begin(), matched.end());
  }
  if (!config.data_files.empty()) return files;
  if (!config.data_dir.empty()) return files_of_data_dir(config, split);
  std::error_code ignored;
  const fs::path path = config.path;
  if (fs::is_directory(path, ignored)) return split_files(path, config.name, split);
  if (is_there(path)) {
    check_split(path);
    return {path};
  }
  if (has_wildcards(config.path)) {
    check_split(path);
    files = match_files(config.path);
    if (!files.empty()) return files;
    throw input_error(config.path, "expected a pattern that matches files, got none of them; correct it");
  }
  if (is_on_hub(config)) return hub_files(config.path, config.name, config.revision, split);
  throw input_error(config.path,
                    "expected a file, a folder, or a data set of the hub (org/name), got no such path; check it");
}

std::optional<hub::Repository> missing_data_set(const DatasetConfig& config) {
  if (!is_on_hub(config)) return {};
  return missing_on_hub(config.path, config.revision);
}

std::vector<SplitSlice> slices_of(const DatasetConfig& config) {
  if (!config.split.empty()) return parse_split(config.split);
  constexpr const char* kTest = "test";
  try {
    (void)dataset_files(config, kTest);
    return parse_split(kTest);
  } catch (const NoSuchSplit& error) {
    if (error.only().empty()) throw;
    return parse_split(error.only());
  }
}

std::vector<fs::path> dataset_files(const DatasetConfig& config) {
  std::vector<fs::path> files;
  for (const SplitSlice& slice : slices_of(config)) {
    for (fs::path& file : dataset_files(config, slice.split)) {
      if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(std::move(file));
    }
  }
  return files;
}

RecordFormat dataset_format(const DatasetConfig& config, const fs::path& file) {
  if (!config.ds_type.empty()) {
    if (const auto format = format_named(config.ds_type)) return *format;
    throw input_error("ds_type", "expected {}, got {}; convert the data", format_names(), quote(config.ds_type));
  }
  if (const auto format = format_of(file)) return *format;
  if (const auto format = format_named(config.path)) return *format;
  throw input_error(file.string(), "expected a {} file, perhaps with .gz or .zst, got '{}'; rename it, or set ds_type",
                    format_endings(), file.extension().string());
}

}  // namespace spillway::data
