// The folder in which the Hugging Face libraries keep what they have downloaded, as huggingface_hub lays it out, so
// that it is shared with them:
//
//   models--org--name/refs/main                   the commit that the branch was at when it was last looked at
//   models--org--name/blobs/ETAG                  a file's bytes; ETAG.incomplete while they arrive
//   models--org--name/snapshots/COMMIT/file       a relative link to its blob
//   models--org--name/.no_exist/COMMIT/file       an empty file: the commit is known to have none of that name
//   .locks/models--org--name/ETAG.lock            held (flock) by the process that downloads the blob
//
// Nothing here uses the network. Threads: any, while nobody changes the environment.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hub/repository.h"

namespace spillway::hub {

// The value of a variable; empty where it is not set.
[[nodiscard]] std::string environment(const char* name);

// HF_HOME, else huggingface in XDG_CACHE_HOME, else ~/.cache/huggingface.
[[nodiscard]] std::filesystem::path home_folder();
// HF_HUB_CACHE (or its older name HUGGINGFACE_HUB_CACHE), else hub in home_folder().
[[nodiscard]] std::filesystem::path cache_folder();
// HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE says 1, on, yes or true.
[[nodiscard]] bool is_offline();

// models--org--name in the cache.
[[nodiscard]] std::filesystem::path repository_folder(const std::filesystem::path& cache, const Repository& repository);

// The commit that the cache has for the revision; empty where it has none. Where no revision is asked for and there is
// no ref of main, that of the newest snapshot.
[[nodiscard]] std::string cached_commit(const std::filesystem::path& cache, const Repository& repository);

// The snapshot's folder of cached_commit(); empty where there is none.
[[nodiscard]] std::filesystem::path snapshot_folder(const std::filesystem::path& cache, const Repository& repository);

// The repository whose snapshot a folder of a cache is, with the commit as its revision; an empty id where it is none.
[[nodiscard]] Repository repository_of(const std::filesystem::path& folder);

// What a folder is wanted for.
enum class FolderUse { kModel, kConfig, kTokenizer, kAdapter };  // kConfig: of a model whose weights are not read

// Whether it is written down that the snapshot's commit has no file of that name.
[[nodiscard]] bool is_known_absent(const std::filesystem::path& snapshot, std::string_view name);
// Writes that down.
void note_absent(const std::filesystem::path& snapshot, std::string_view name);

// Whether the snapshot has tokenizer.json, or is known to have none.
[[nodiscard]] bool has_its_tokenizer(const std::filesystem::path& snapshot);

// The names of files that the folder of a snapshot lacks for this use: its config, and its weights as safetensors, all
// of those that an index names. A file whose blob is gone is missing, too. Which other files belong to a tokenizer,
// only the hub knows.
[[nodiscard]] std::vector<std::string> missing_files(const std::filesystem::path& snapshot, FolderUse use);

}  // namespace spillway::hub
