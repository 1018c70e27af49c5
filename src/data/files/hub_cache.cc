#include "data/files/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "data/files/split_files.h"
#include "io/file.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const char* variable, const char* inside_home) {
  if (const char* own = std::getenv(variable); own != nullptr && *own != '\0') return own;
  const char* home = std::getenv("HF_HOME");
  if (home != nullptr && *home != '\0') return fs::path(home) / inside_home;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return fs::path(cache) / "huggingface" / inside_home;
  const char* user = std::getenv("HOME");
  return fs::path(user != nullptr ? user : "/") / ".cache" / "huggingface" / inside_home;
}

std::string with_marks(std::string_view path, const char* mark) {
  std::string text(path);
  for (size_t at = text.find('/'); at != std::string::npos; at = text.find('/', at)) text.replace(at, 1, mark);
  return text;
}

// Folders of a folder, the newest last.
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

// The snapshot of a branch, a tag or a commit; empty where there is none.
fs::path snapshot_of(const fs::path& repository, std::string_view revision) {
  constexpr int64_t kMaxReferenceBytes = 4096;
  std::error_code ignored;
  const std::string wanted(revision.empty() ? "main" : revision);
  const fs::path snapshots = repository / "snapshots", reference = repository / "refs" / wanted;
  if (fs::is_directory(snapshots / wanted, ignored)) return snapshots / wanted;
  if (fs::is_regular_file(reference, ignored)) {
    std::string commit = read_file(reference, kMaxReferenceBytes);
    commit.erase(commit.find_last_not_of(" \r\n") + 1);
    if (!commit.empty() && fs::is_directory(snapshots / commit, ignored)) return snapshots / commit;
  }
  if (!revision.empty()) return {};
  const std::vector<fs::path> all = folders_in(snapshots);
  return all.empty() ? fs::path() : all.back();
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
  const auto slashes = std::count(path.begin(), path.end(), '/');
  if (path.empty() || slashes > 1 || path.front() == '/' || path.back() == '/' || path.front() == '.') return false;
  return std::all_of(path.begin(), path.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '-' ||
           c == '_' || c == '.';
  });
}

std::vector<fs::path> hub_files(std::string_view path, std::string_view name, std::string_view revision,
                                std::string_view split) {
  const fs::path hub = folder_of("HF_HUB_CACHE", "hub"), datasets = folder_of("HF_DATASETS_CACHE", "datasets");
  const fs::path snapshot = snapshot_of(hub / ("datasets--" + with_marks(path, "--")), revision);
  if (!snapshot.empty()) return split_files(snapshot, name, split);
  auto prepared = prepared_files(datasets / with_marks(path, "___"), name, split);
  if (!prepared.empty()) return prepared;
  throw input_error(path,
                    "expected a local file or folder, or a data set in {} or {}, got neither; fetch it with `hf "
                    "download --repo-type dataset {}`",
                    hub.string(), datasets.string(), path);
}

}  // namespace spillway::data
