#include "hub/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "hub/place_blob.h"
#include "hub/selection.h"
#include "io/disk_space.h"
#include "io/file.h"

namespace spillway::hub {
namespace {

namespace fs = std::filesystem;

// The optional files that this program and transformers look for in a model's folder.
constexpr const char* kUsualFiles[] = {"adapter_config.json",    "added_tokens.json",       "chat_template.jinja",
                                       "generation_config.json", "special_tokens_map.json", "tokenizer.json",
                                       "tokenizer_config.json"};

// Returns the bytes of the file that are on the disk, whole or not.
int64_t bytes_there(const fs::path& repository, const RemoteFile& file) {
  for (const std::string& name : {file.digest, file.digest + ".incomplete"}) {
    std::error_code none;
    const auto size = fs::file_size(repository / "blobs" / name, none);
    if (!file.digest.empty() && !none) return std::min(static_cast<int64_t>(size), std::max<int64_t>(0, file.size));
  }
  return 0;
}

void check_room(const FetchList& list) {
  int64_t needed = 0;
  for (const ListedFile& one : list.files) {
    if (!one.is_there && one.file.size > 0)
      needed += one.file.size - bytes_there(repository_folder(list.cache, list.repository), one.file);
  }
  const int64_t free = free_disk_bytes(existing_folder(list.cache));
  if (needed > 0 && free < needed)
    throw machine_error(list.cache.string(), "expected {} of free disk for {}, got {}; make room, or set HF_HUB_CACHE",
                        format_bytes(needed), shown_name(list.repository), format_bytes(free));
}

void write_reference(const FetchList& list) {
  const std::string revision(list.repository.wanted_revision());
  if (revision == list.commit) return;
  const fs::path path = repository_folder(list.cache, list.repository) / "refs" / revision;
  create_folders(path.parent_path());
  write_file(path, list.commit);
}

}  // namespace

FetchList list_fetch(const Repository& repository, const FetchOptions& options) {
  if (is_offline())
    throw input_error(shown_name(repository),
                      "expected to ask the hub for this {}, got HF_HUB_OFFLINE; unset it, or copy "
                      "the {} into {}",
                      repository.noun(), repository.noun(), cache_folder().string());
  HttpClient client;
  const Listing listing = list_repository(client, options.server, repository, {});
  FetchList list{.repository = repository, .commit = listing.commit, .cache = cache_folder()};
  list.snapshot = repository_folder(list.cache, repository) / "snapshots" / list.commit;
  for (RemoteFile& file : select_files(repository, listing, options.include, options.use)) {
    std::error_code none;
    const bool is_there = fs::is_regular_file(list.snapshot / file.path, none);
    const int64_t size = std::max<int64_t>(0, file.size);
    list.bytes += size;
    if (!is_there) list.missing_bytes += size;
    list.files.push_back({std::move(file), is_there});
  }
  if (repository.kind == RepositoryKind::kModel) {
    for (const char* name : kUsualFiles) {
      const auto is_it = [&](const RemoteFile& file) { return file.path == name; };
      if (std::none_of(listing.files.begin(), listing.files.end(), is_it)) list.absent.emplace_back(name);
    }
  }
  return list;
}

void fetch(const FetchList& list, const FetchOptions& options) {
  std::vector<RemoteFile> missing;
  for (const ListedFile& one : list.files) {
    if (!one.is_there) missing.push_back(one.file);
  }
  if (!missing.empty()) {
    check_room(list);
    const int64_t before = list.bytes - list.missing_bytes;
    DownloadOptions how{.connections = options.connections, .piece_bytes = options.piece_bytes};
    if (options.on_progress) how.on_progress = [&](int64_t done) { options.on_progress(before + done, list.bytes); };
    const std::map<std::string, std::string> etags =
        download_files(options.server, list.repository, list.commit, missing, list.cache, how);
    const fs::path blobs = repository_folder(list.cache, list.repository) / "blobs";
    std::map<std::string, int64_t> uses;  // several files may be one blob
    for (const auto& [path, etag] : etags) ++uses[etag];
    for (const auto& [path, etag] : etags) place_blob(blobs / etag, list.snapshot / path, --uses[etag] == 0);
  }
  for (const std::string& name : list.absent) note_absent(list.snapshot, name);
  write_reference(list);
}

}  // namespace spillway::hub
