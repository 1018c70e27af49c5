#include "hub/cache.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>

#include "base/bytes.h"
#include "base/home.h"
#include "base/json_field.h"
#include "hub/pipeline.h"
#include "io/file.h"

namespace spillway::hub {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxReferenceBytes = 4096;
constexpr int64_t kMaxIndexBytes = 256 * kMiB;

bool is_on(const char* name) {
  std::string value = environment(name);
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::toupper(c); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

// Returns true if it is a file or a link to one.
bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string newest_snapshot(const fs::path& snapshots) {
  std::string newest;
  fs::file_time_type newest_time;
  std::error_code error;
  for (fs::directory_iterator it(snapshots, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!it->is_directory(ignored)) continue;
    const fs::file_time_type time = fs::last_write_time(it->path(), ignored);
    const std::string name = it->path().filename().string();
    if (newest.empty() || time > newest_time || (time == newest_time && name > newest)) {
      newest = name;
      newest_time = time;
    }
  }
  return newest;
}

fs::path absence_of(const fs::path& snapshot, std::string_view name) {
  return snapshot.parent_path().parent_path() / ".no_exist" / snapshot.filename() / name;
}

// `single` is the name of the weights, below the snapshot, if they are one file.
void add_missing_weights(const fs::path& snapshot, const std::string& single, std::vector<std::string>& missing) {
  const std::string index = single + ".index.json";
  if (is_file(snapshot / single)) return;
  if (!is_file(snapshot / index)) {
    missing.push_back(single);
    return;
  }
  const JsonDocument document(read_file(snapshot / index, kMaxIndexBytes), (snapshot / index).string());
  std::set<std::string> files;
  for (const auto& [name, file] : document.root()["weight_map"].members()) files.insert(file.string());
  for (const std::string& name : files) {
    const std::string file = (fs::path(single).parent_path() / name).string();
    if (!is_inner_path(name) || !is_file(snapshot / file)) missing.push_back(file);
  }
}

// Adds the missing files of the transformers that the index of a pipeline names; one that it leaves out is null, or a
// list of nulls.
void add_missing_parts(const fs::path& snapshot, bool reads_weights, std::vector<std::string>& missing) {
  const fs::path index = snapshot / kPipelineIndex;
  const JsonDocument document(read_file(index, kMaxIndexBytes), index.string());
  for (const std::string part : kTransformers) {
    const JsonField classes = document.root()[part];
    if (classes.is_null() ||
        (classes.is_array() && (classes.elements().empty() || classes.elements().front().is_null())))
      continue;
    if (!is_file(snapshot / part / "config.json")) missing.push_back(part + "/config.json");
    if (reads_weights) add_missing_weights(snapshot, part + "/" + kPartWeights, missing);
  }
}

}  // namespace

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

fs::path home_folder() {
  if (const std::string own = environment("HF_HOME"); !own.empty()) return expand_home(own);
  if (const std::string caches = environment("XDG_CACHE_HOME"); !caches.empty())
    return fs::path(expand_home(caches)) / "huggingface";
  const std::string home = environment("HOME");
  return fs::path(home.empty() ? "/" : home) / ".cache" / "huggingface";
}

fs::path cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string own = environment(name); !own.empty()) return expand_home(own);
  }
  return home_folder() / "hub";
}

bool is_offline() { return is_on(environment("HF_HUB_OFFLINE").empty() ? "TRANSFORMERS_OFFLINE" : "HF_HUB_OFFLINE"); }

fs::path repository_folder(const fs::path& cache, const Repository& repository) {
  std::string name = repository.kind == RepositoryKind::kModel ? "models--" : "datasets--";
  for (const char c : repository.id) name += c == '/' ? std::string("--") : std::string(1, c);
  return cache / name;
}

std::string cached_commit(const fs::path& cache, const Repository& repository) {
  const fs::path folder = repository_folder(cache, repository), snapshots = folder / "snapshots";
  std::string revision(repository.wanted_revision());
  if (!is_revision(revision)) return {};
  if (is_file(folder / "refs" / revision)) {
    std::string commit = read_file(folder / "refs" / revision, kMaxReferenceBytes);
    commit.erase(commit.find_last_not_of(" \r\n") + 1);
    if (is_inner_path(commit) && is_folder(snapshots / commit)) return commit;
  }
  if (revision.find('/') == std::string::npos && is_folder(snapshots / revision)) return revision;
  return repository.revision.empty() ? newest_snapshot(snapshots) : "";
}

fs::path snapshot_folder(const fs::path& cache, const Repository& repository) {
  const std::string commit = cached_commit(cache, repository);
  return commit.empty() ? fs::path() : repository_folder(cache, repository) / "snapshots" / commit;
}

Repository repository_of(const fs::path& folder) {
  constexpr std::string_view kModels = "models--";
  const fs::path snapshots = without_trailing_slash(folder).parent_path();
  const std::string name = snapshots.parent_path().filename().string();
  if (snapshots.filename() != "snapshots" || !name.starts_with(kModels)) return {};
  std::string id = name.substr(kModels.size());
  if (const size_t mark = id.find("--"); mark != std::string::npos) id.replace(mark, 2, "/");
  return {.kind = RepositoryKind::kModel,
          .id = std::move(id),
          .revision = without_trailing_slash(folder).filename().string()};
}

bool is_known_absent(const fs::path& snapshot, std::string_view name) { return is_file(absence_of(snapshot, name)); }

void note_absent(const fs::path& snapshot, std::string_view name) {
  if (is_known_absent(snapshot, name)) return;
  const fs::path path = absence_of(snapshot, name);
  create_folders(path.parent_path());
  write_file(path, "");
}

bool has_its_tokenizer(const fs::path& snapshot) {
  return is_file(snapshot / "tokenizer.json") || is_known_absent(snapshot, "tokenizer.json");
}

std::vector<std::string> missing_files(const fs::path& snapshot, FolderUse use) {
  std::vector<std::string> missing;
  const auto need = [&](const char* name) {
    if (!is_file(snapshot / name)) missing.emplace_back(name);
  };
  const bool reads_weights = use == FolderUse::kModel;
  if ((reads_weights || use == FolderUse::kConfig) && is_file(snapshot / kPipelineIndex)) {
    add_missing_parts(snapshot, reads_weights, missing);
    return missing;
  }
  switch (use) {
    case FolderUse::kTokenizer:
      need("tokenizer.json");
      break;
    case FolderUse::kAdapter:
      if (is_file(snapshot / "pytorch_lora_weights.safetensors")) break;  // diffusers', which says all in one file
      need("adapter_config.json");
      need("adapter_model.safetensors");
      break;
    case FolderUse::kConfig:
      need("config.json");
      break;
    case FolderUse::kModel:
      need("config.json");
      add_missing_weights(snapshot, "model.safetensors", missing);
      break;
  }
  return missing;
}

}  // namespace spillway::hub
