// The folder in which the Hugging Face libraries keep their downloads, in huggingface_hub's layout, so that it is
// shared with them:
//
//   models--org--name/refs/main                   the commit that the branch was at when it was last looked at
//   models--org--name/blobs/ETAG                  a file's bytes; ETAG.incomplete while they arrive
//   models--org--name/snapshots/COMMIT/file       a relative link to its blob
//   models--org--name/.no_exist/COMMIT/file       an empty file: the commit is known to have none of that name
//   .locks/models--org--name/ETAG.lock            held (flock) by the process that downloads the blob
//
// Nothing here uses the network. Safe from any thread while none changes the environment.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hub/repository.h"

namespace spillway::hub {

// Returns the value of a variable; empty if it is not set.
[[nodiscard]] std::string environment(const char* name);

// Returns HF_HOME, else huggingface in XDG_CACHE_HOME, else ~/.cache/huggingface.
[[nodiscard]] std::filesystem::path home_folder();
// Returns HF_HUB_CACHE (or its older name HUGGINGFACE_HUB_CACHE), else hub in home_folder().
[[nodiscard]] std::filesystem::path cache_folder();
// Returns true if HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is 1, on, yes or true.
[[nodiscard]] bool is_offline();

// Returns models--org--name in the cache.
[[nodiscard]] std::filesystem::path repository_folder(const std::filesystem::path& cache, const Repository& repository);

// Returns the commit that the cache has for the revision; empty if it has none. If no revision is given and there is no
// ref of main, returns that of the newest snapshot.
[[nodiscard]] std::string cached_commit(const std::filesystem::path& cache, const Repository& repository);

// Returns the snapshot's folder of cached_commit(); empty if there is none.
[[nodiscard]] std::filesystem::path snapshot_folder(const std::filesystem::path& cache, const Repository& repository);

// Returns the repository whose snapshot a folder of a cache is, with the commit as its revision; an empty id if it is
// none.
[[nodiscard]] Repository repository_of(const std::filesystem::path& folder);

// The purpose for which a folder is needed.
enum class FolderUse { kModel, kConfig, kTokenizer, kAdapter };  // kConfig: of a model whose weights are not read

// Returns true if the cache notes that the snapshot's commit has no file of that name.
[[nodiscard]] bool is_known_absent(const std::filesystem::path& snapshot, std::string_view name);
// Writes such a note.
void note_absent(const std::filesystem::path& snapshot, std::string_view name);

// Returns true if the snapshot has tokenizer.json, or is known to have none.
[[nodiscard]] bool has_its_tokenizer(const std::filesystem::path& snapshot);

// Returns the names of files that the folder of a snapshot lacks for this use: its config, and its weights as
// safetensors, including all that an index names. A file whose blob is gone is missing, too. The other files of a
// tokenizer are not checked, since only the hub knows them.
[[nodiscard]] std::vector<std::string> missing_files(const std::filesystem::path& snapshot, FolderUse use);

}  // namespace spillway::hub
