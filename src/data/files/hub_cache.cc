#include "data/files/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "data/files/split_files.h"
#include "hub/cache.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;

// Returns the folder of the data sets that the datasets library prepared.
fs::path prepared_folder() {
  const char* own = std::getenv("HF_DATASETS_CACHE");
  return own != nullptr && *own != '\0' ? fs::path(own) : hub::home_folder() / "datasets";
}

std::string with_marks(std::string_view path, const char* mark) {
  std::string text(path);
  for (size_t at = text.find('/'); at != std::string::npos; at = text.find('/', at)) text.replace(at, 1, mark);
  return text;
}

// Returns the folders in a folder, the newest last.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->is_directory(error)) folders.push_back(it->path());
  }
  const auto time = [](const fs::path& path) {
    std::error_code ignored;
    return fs::last_write_time(path, ignored);
  };
  std::sort(folders.begin(), folders.end(),
            [&](const auto& a, const auto& b) { return time(a) != time(b) ? time(a) < time(b) : a < b; });
  return folders;
}

// NAME-SPLIT.arrow or NAME-SPLIT-00000-of-00002.arrow in CONFIG/VERSION/HASH.
std::vector<fs::path> prepared_files(const fs::path& dataset, std::string_view name, std::string_view split) {
  for (const fs::path& config : folders_in(dataset)) {
    const std::string own = config.filename().string();
    if (!name.empty() && own != name && !own.starts_with(fmt::format("{}-", name))) continue;
    for (const fs::path& version : folders_in(config)) {
      std::vector<fs::path> hashes = folders_in(version);
      std::reverse(hashes.begin(), hashes.end());
      for (const fs::path& hash : hashes) {
        for (const char* ending : {".arrow", "-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].arrow"}) {
          auto files = match_files(hash, fmt::format("*-{}{}", split, ending));
          if (!files.empty()) return files;
        }
      }
    }
  }
  return {};
}

}  // namespace

bool is_hub_name(std::string_view path) {
  return path.find('@') == std::string_view::npos && hub::repository_named(path).has_value();
}

fs::path hub_snapshot(std::string_view path, std::string_view revision) {
  return hub::snapshot_folder(
      hub::cache_folder(),
      {.kind = hub::RepositoryKind::kDataset, .id = std::string(path), .revision = std::string(revision)});
}

std::optional<hub::Repository> missing_on_hub(std::string_view path, std::string_view revision) {
  std::error_code ignored;
  if (!hub_snapshot(path, revision).empty()) return {};
  if (fs::is_directory(prepared_folder() / with_marks(path, "___"), ignored)) return {};
  return hub::Repository{hub::RepositoryKind::kDataset, std::string(path), std::string(revision)};
}

std::vector<fs::path> hub_files(std::string_view path, std::string_view name, std::string_view revision,
                                std::string_view split) {
  const fs::path snapshot = hub_snapshot(path, revision);
  if (!snapshot.empty()) return split_files(snapshot, name, split);
  auto prepared = prepared_files(prepared_folder() / with_marks(path, "___"), name, split);
  if (!prepared.empty()) return prepared;
  throw input_error(path, "expected a local file or folder, or a data set in {} or {}, got neither; fetch it with `{}`",
                    hub::cache_folder().string(), prepared_folder().string(),
                    hub::fetch_command({hub::RepositoryKind::kDataset, std::string(path), std::string(revision)}));
}

}  // namespace spillway::data
