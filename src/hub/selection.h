// Selects the files of a repository that are fetched.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hub/cache.h"
#include "hub/server.h"

namespace spillway::hub {

// Returns true if a path matches a pattern by the rules of huggingface_hub (Python's fnmatch): `*` also goes over
// slashes, and a pattern that ends in a slash matches all of a folder.
[[nodiscard]] bool matches(std::string_view path, const std::string& pattern);

// Returns the files that match one of `include`, or, if that is empty: of a data set its data files and README; of a
// model the files that are read from a folder (safetensors once, not in other formats or cuts too, config, tokenizer,
// templates, README and licence), without weights for uses that read none. They are in the order of their names. Throws
// InputError if there are none, and if a model has no safetensors.
[[nodiscard]] std::vector<RemoteFile> select_files(const Repository& repository, const Listing& listing,
                                                   std::span<const std::string> include, FolderUse use);

}  // namespace spillway::hub
