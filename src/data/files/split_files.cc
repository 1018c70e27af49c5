#include "data/files/split_files.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "data/files/record_parsers.h"
#include "data/files/record_reader.h"
#include "io/file.h"
#include "io/folder_entries.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxMetadataBytes = int64_t{1} << 20;
constexpr size_t kMaxFiles = 1'000'000;
constexpr std::string_view kWild = "*?[";

using SplitPaths = std::map<std::string, std::vector<fs::path>>;

// --- patterns ---

// One name against one pattern without slashes.
bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, star_name = 0;
  const auto one = [&](size_t& at) {  // whether the piece of the pattern at `at` takes name[n]; moves behind it
    const char c = pattern[at];
    if (c == '?') return ++at, true;
    const size_t close = c == '[' ? pattern.find(']', at + 2) : std::string_view::npos;
    if (close == std::string_view::npos) return pattern[at++] == name[n];
    const bool negated = pattern[at + 1] == '!' || pattern[at + 1] == '^';
    bool hit = false;
    for (size_t i = at + 1 + (negated ? 1 : 0); i < close; ++i) {
      if (i + 2 < close && pattern[i + 1] == '-') {
        hit |= pattern[i] <= name[n] && name[n] <= pattern[i + 2];
        i += 2;
      } else {
        hit |= pattern[i] == name[n];
      }
    }
    at = close + 1;
    return hit != negated;
  };
  while (n < name.size()) {
    size_t next = p;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
    } else if (p < pattern.size() && one(next)) {
      p = next;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool is_hidden(const std::string& name) { return name.starts_with('.') || name.starts_with("__"); }

void match_from(const fs::path& folder, const std::vector<std::string>& parts, size_t at,
                std::vector<fs::path>& found) {
  if (found.size() > kMaxFiles) return;
  const std::string& part = parts[at];
  const bool last = at + 1 == parts.size(), any_depth = part == "**";
  if (any_depth && !last) match_from(folder, parts, at + 1, found);
  for (const FolderEntry& entry : entries_of(folder.empty() ? "." : folder)) {
    const std::string& name = entry.name;
    const bool spelled = part.starts_with('.') || part.starts_with("__");
    if (is_hidden(name) && !spelled) continue;
    const fs::path path = folder / name;
    std::error_code ignored;
    const bool is_folder = entry.kind == EntryKind::kFolder || fs::is_directory(path, ignored);
    if (any_depth && entry.kind == EntryKind::kFolder) match_from(path, parts, at, found);
    if (!any_depth && !matches(part, name)) continue;
    if (!last && !any_depth && is_folder) match_from(path, parts, at + 1, found);
    if (last && !is_folder) found.push_back(path);
  }
}

// --- folders ---

// Throws InputError for data that is compressed in a way that is not read, as its rows would be missing.
void check_compression(const fs::path& file) {
  static constexpr std::array<std::string_view, 6> kOthers = {".bz2", ".xz", ".zip", ".lz4", ".7z", ".lzma"};
  if (std::find(kOthers.begin(), kOthers.end(), file.extension()) == kOthers.end() || !format_of(file.stem())) return;
  throw input_error(file.string(),
                    "expected data as it is, or in .gz or .zst, got {}; decompress it, or name others in data_files",
                    file.extension().string());
}

std::vector<fs::path> data_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (fs::path& file : match_files(folder, "**")) {
    const std::string name = file.filename().string();
    check_compression(file);
    const bool is_metadata = name == "config.json" || name == "dataset_info.json" || name == "dataset_infos.json" ||
                             name == "dataset_dict.json" || name == "state.json";
    if (!is_metadata && format_of(file)) files.push_back(std::move(file));
  }
  return files;
}

constexpr std::string_view kSeparators = "-._ 0123456789";

// Returns true if a name has a split's keyword as a word; a file's name must have more after it (its extension).
bool has_word(std::string_view name, std::string_view word, bool is_folder) {
  for (size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || kSeparators.find(name[at - 1]) != std::string_view::npos;
    const bool ends = end == name.size() ? is_folder : kSeparators.find(name[end]) != std::string_view::npos;
    if (begins && ends) return true;
  }
  return false;
}

struct SplitWords {
  const char* split;
  std::vector<std::string_view> words;
};

SplitPaths by_names(const fs::path& folder, const std::vector<fs::path>& files, bool by_folder) {
  static const std::array<SplitWords, 3> kWords = {SplitWords{"train", {"train", "training"}},
                                                   SplitWords{"validation", {"validation", "valid", "dev", "val"}},
                                                   SplitWords{"test", {"test", "testing", "eval", "evaluation"}}};
  SplitPaths splits;
  for (const SplitWords& split : kWords) {
    for (const fs::path& file : files) {
      const fs::path inside = file.lexically_relative(folder);
      const auto named = [&](const fs::path& part, bool is_folder) {
        return std::any_of(split.words.begin(), split.words.end(),
                           [&](std::string_view word) { return has_word(part.string(), word, is_folder); });
      };
      const fs::path parents = inside.parent_path();
      const bool hit = by_folder ? std::any_of(parents.begin(), parents.end(),
                                               [&](const fs::path& part) { return named(part, true); })
                                 : named(inside.filename(), false);
      if (hit) splits[split.split].push_back(file);
    }
  }
  return splits;
}

// data/SPLIT-00000-of-00001.EXTENSION
SplitPaths by_shard_names(const fs::path& folder) {
  constexpr std::string_view kDigits = "[0-9][0-9][0-9][0-9][0-9]";
  const std::string pattern = fmt::format("data/*-{}-of-{}*.*", kDigits, kDigits);
  SplitPaths splits;
  for (const fs::path& file : match_files(folder, pattern)) {
    const std::string name = file.filename().string();
    check_compression(file);
    if (format_of(file)) splits[name.substr(0, name.rfind("-of-") - std::string_view("-00000").size())].push_back(file);
  }
  return splits;
}

SplitPaths by_structure(const fs::path& folder) {
  if (SplitPaths splits = by_shard_names(folder); !splits.empty()) return splits;
  const std::vector<fs::path> files = data_files_in(folder);
  for (const bool by_folder : {true, false}) {
    if (SplitPaths splits = by_names(folder, files, by_folder); !splits.empty()) return splits;
  }
  if (files.empty())
    throw input_error(folder.string(), "expected {} files in the folder, got none; put the data there",
                      format_endings());
  return {{"train", files}};
}

// --- what save_to_disk leaves ---

std::optional<nlohmann::json> read_json(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  nlohmann::json json = nlohmann::json::parse(read_file(path, kMaxMetadataBytes), nullptr, false);
  if (json.is_discarded()) throw input_error(path.string(), "expected JSON, got other text; save the dataset again");
  return json;
}

// A folder from elsewhere must not name files outside of itself.
void check_inside(const fs::path& metadata, const fs::path& path) {
  const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
  if (climbs || path.is_absolute())
    throw input_error(metadata.string(), "expected files of its own folder, got {}; correct it", quote(path.string()));
}

std::optional<std::vector<fs::path>> saved_files(const fs::path& folder) {
  const auto state = read_json(folder / "state.json");
  if (!state) return {};
  std::vector<fs::path> files;
  const auto list = state->find("_data_files");
  if (list == state->end() || !list->is_array())
    throw input_error((folder / "state.json").string(),
                      "expected a list _data_files, got none; save the dataset again");
  for (const auto& entry : *list) {
    if (!entry.is_object() || !entry.contains("filename") || !entry["filename"].is_string())
      throw input_error((folder / "state.json").string(), "expected file names in _data_files, got {}; save it again",
                        entry.type_name());
    check_inside(folder / "state.json", entry["filename"].get<std::string>());
    files.push_back(folder / entry["filename"].get<std::string>());
  }
  return files;
}

std::string saved_split(const fs::path& folder) {
  const auto state = read_json(folder / "state.json");
  if (!state) return "train";
  const auto split = state->find("_split");
  return split != state->end() && split->is_string() ? split->get<std::string>() : "train";
}

// --- README.md ---

std::vector<std::string> texts_of(const YAML::Node& node) {
  std::vector<std::string> texts;
  if (node.IsScalar()) texts.push_back(node.Scalar());
  if (node.IsSequence()) {
    for (const auto& item : node) {
      if (item.IsScalar()) texts.push_back(item.Scalar());
    }
  }
  return texts;
}

// Throws InputError for options of the datasets library's loaders, with which rows would be others.
void check_options(const fs::path& folder, const YAML::Node& config) {
  static constexpr std::array<std::string_view, 12> kOptions = {
      "sep",   "delimiter", "field",    "names",     "column_names",    "sample_by",
      "nrows", "header",    "skiprows", "quotechar", "keep_linebreaks", "usecols"};
  for (const auto& entry : config) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (std::find(kOptions.begin(), kOptions.end(), key) == kOptions.end()) continue;
    throw input_error((folder / "README.md").string(),
                      "expected a config without {}, which is not yet supported; remove it there, or name files in "
                      "data_files",
                      key);
  }
}

SplitPaths files_of_config(const fs::path& folder, const YAML::Node& config) {
  check_options(folder, config);
  fs::path base = folder;
  if (config["data_dir"] && config["data_dir"].IsScalar()) {
    check_inside(folder / "README.md", config["data_dir"].Scalar());
    base /= config["data_dir"].Scalar();
  }
  const YAML::Node& data_files = config["data_files"];
  if (!data_files) return by_structure(base);
  SplitPaths splits;
  const auto add = [&](const std::string& split, const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) {
      check_inside(folder / "README.md", pattern);
      const std::vector<fs::path> files = match_files(base, pattern);
      splits[split].insert(splits[split].end(), files.begin(), files.end());
    }
  };
  if (data_files.IsSequence() && data_files.size() > 0 && data_files[0].IsMap()) {
    for (const auto& entry : data_files) {
      if (entry.IsMap() && entry["split"] && entry["split"].IsScalar() && entry["path"])
        add(entry["split"].Scalar(), texts_of(entry["path"]));
    }
  } else if (data_files.IsMap()) {
    for (const auto& entry : data_files) add(entry.first.Scalar(), texts_of(entry.second));
  } else {
    add("train", texts_of(data_files));
  }
  return splits;
}

// The `configs` of the block between --- lines at the top.
std::optional<SplitPaths> by_readme(const fs::path& folder, std::string_view name) {
  const fs::path readme = folder / "README.md";
  std::error_code ignored;
  if (!fs::exists(readme, ignored)) return {};
  const std::string text = read_file(readme, kMaxMetadataBytes);
  const size_t end = text.find("\n---", 3);
  if (!text.starts_with("---") || end == std::string::npos) return {};
  try {
    const YAML::Node root = YAML::Load(text.substr(3, end - 3));
    const YAML::Node configs = root.IsMap() ? root["configs"] : YAML::Node();
    if (!configs || !configs.IsSequence()) return {};
    std::string names;
    for (const auto& config : configs) {
      if (!config.IsMap() || !config["config_name"] || !config["config_name"].IsScalar()) continue;
      const std::string own = config["config_name"].Scalar();
      const bool is_default =
          own == "default" || configs.size() == 1 ||
          (config["default"] && config["default"].IsScalar() && config["default"].Scalar() == "true");
      if (name.empty() ? is_default : own == name) return files_of_config(folder, config);
      names += (names.empty() ? "" : ", ") + own;
    }
    if (fs::is_directory(folder / name, ignored) && !name.empty()) return {};
    throw input_error("name", "expected one of {} (the configs of {}), got {}; set it", names, readme.string(),
                      name.empty() ? "none" : quote(name));
  } catch (const YAML::Exception& error) {
    throw input_error(readme.string(), "expected YAML between the --- lines, got {}; correct it", quote(error.what()));
  }
}

// Returns the files of the format that the most common ending means, as the datasets library reads a folder: of as
// many, the first of its favourites, then the last by the alphabet (datasets/load.py,
// infer_module_for_data_files_list). Others are what lies beside data: a licence, notes.
std::vector<fs::path> of_one_format(std::vector<fs::path> files) {
  static constexpr std::array<std::string_view, 5> kFavourites = {".parquet", ".arrow", ".jsonl", ".json", ".csv"};
  std::map<std::string, int64_t> counts;
  for (const fs::path& file : files)
    if (format_of(file)) ++counts[ending_of(file)];
  const auto rank = [&](const auto& counted) {
    const auto favourite = std::find(kFavourites.begin(), kFavourites.end(), counted.first);
    return std::tuple(counted.second, kFavourites.end() - favourite, counted.first);
  };
  const auto most =
      std::max_element(counts.begin(), counts.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  if (most == counts.end()) return files;
  const auto format = format_of("data" + most->first);
  std::erase_if(files, [&](const fs::path& file) { return format_of(file) != format; });
  return files;
}

std::vector<fs::path> files_of_split(const SplitPaths& splits, const fs::path& folder, std::string_view split) {
  const auto found = splits.find(std::string(split));
  if (found != splits.end() && !found->second.empty()) return of_one_format(found->second);
  std::string names;
  for (const auto& [own, files] : splits) names += (names.empty() ? "" : ", ") + own;
  throw NoSuchSplit(folder, names, split);
}

}  // namespace

bool has_wildcards(std::string_view path) { return path.find_first_of(kWild) != std::string_view::npos; }

std::vector<fs::path> match_files(const std::string& pattern) { return match_files(fs::path(), pattern); }

std::vector<fs::path> match_files(const fs::path& folder, const std::string& pattern) {
  fs::path fixed = folder;
  std::vector<std::string> parts;
  for (const fs::path& part : fs::path(pattern)) {
    if (parts.empty() && !has_wildcards(part.string())) {
      fixed /= part;
    } else if (!part.empty()) {
      parts.push_back(part.string());
    }
  }
  std::vector<fs::path> found;
  std::error_code ignored;
  if (!parts.empty()) {
    match_from(fixed, parts, 0, found);
  } else if (fs::exists(fixed, ignored) && !fs::is_directory(fixed, ignored)) {
    found.push_back(fixed);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<fs::path> split_files(const fs::path& folder, std::string_view name, std::string_view split) {
  if (const auto saved = saved_files(folder)) {
    // The folder holds one split, which may lack its name; the default of a config is `train`.
    const std::string own = saved_split(folder);
    if (split != "train" && split != own) throw NoSuchSplit(folder, own, split);
    return *saved;
  }
  if (read_json(folder / "dataset_dict.json")) {
    if (const auto saved = saved_files(folder / split)) return *saved;
    throw input_error("split", "expected a split that {} has, got {}; correct it", folder.string(), quote(split));
  }
  SplitPaths splits;
  if (auto named = by_readme(folder, name)) {
    splits = std::move(*named);
  } else {
    std::error_code ignored;
    if (!name.empty() && !fs::is_directory(folder / name, ignored))
      throw input_error("name", "expected a config or a folder of {}, got {}; correct it", folder.string(),
                        quote(name));
    splits = by_structure(folder / name);
  }
  return files_of_split(splits, folder, split);
}

std::vector<fs::path> split_files_by_name(const fs::path& folder, std::string_view split) {
  return files_of_split(by_structure(folder), folder, split);
}

NoSuchSplit::NoSuchSplit(const fs::path& place, const std::string& names, std::string_view split)
    : InputError(input_error("split", "expected a split that {} has ({}), got {}; correct it", place.string(), names,
                             quote(split))),
      only_(names.find(',') == std::string::npos ? names : "") {}

}  // namespace spillway::data
