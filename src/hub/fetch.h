// Fetches a model or a data set of the hub into the cache that is shared with the Hugging Face libraries.
//
//   const FetchList list = list_fetch(repository, options);
//   fetch(list, options);
//   use(list.snapshot);
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hub/cache.h"
#include "hub/download.h"
#include "hub/server.h"

namespace spillway::hub {

struct FetchOptions {
  std::vector<std::string> include;  // patterns (hub/selection.h); empty: the usual files
  FolderUse use = FolderUse::kModel;
  Server server = server_of_environment();
  int connections = DownloadOptions().connections;
  int64_t piece_bytes = DownloadOptions().piece_bytes;
  // Called with the bytes of all files that are present, and of all files.
  std::function<void(int64_t done, int64_t total)> on_progress;
};

struct ListedFile {
  RemoteFile file;
  bool is_there = false;  // in the snapshot
};

struct FetchList {
  Repository repository;
  std::string commit;
  std::filesystem::path cache, snapshot;  // the snapshot's folder, which need not exist yet
  std::vector<ListedFile> files;
  int64_t bytes = 0, missing_bytes = 0;
  std::vector<std::string> absent;  // those of the usual files of a model that the commit does not have
};

// Asks the hub for the files of the revision; writes nothing. Throws as list_repository() and select_files(), and
// InputError if HF_HUB_OFFLINE forbids it.
[[nodiscard]] FetchList list_fetch(const Repository& repository, const FetchOptions& options);

// Fetches the missing files. Makes links in snapshots/, notes of absent files and the ref of the revision when all
// files are whole. Throws as download_files(), and MachineError if the disk has too little room, before anything is
// downloaded. Several processes may do so at the same time.
void fetch(const FetchList& list, const FetchOptions& options);

}  // namespace spillway::hub
