// Which files of a repository are fetched.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hub/cache.h"
#include "hub/server.h"

namespace spillway::hub {

// Whether a path matches a pattern, as huggingface_hub has it (Python's fnmatch): `*` also goes over slashes, and a
// pattern that ends in a slash is all of a folder.
[[nodiscard]] bool matches(std::string_view path, const std::string& pattern);

// The files that match one of `include`, or, where that is empty: of a data set its data files and README; of a model
// what a folder is read for (safetensors once, not in other formats or cuts too, config, tokenizer, templates, README
// and licence), without weights for uses that read none. In the order of their names. Throws InputError where there are
// none, and where a model has no safetensors.
[[nodiscard]] std::vector<RemoteFile> select_files(const Repository& repository, const Listing& listing,
                                                   std::span<const std::string> include, FolderUse use);

}  // namespace spillway::hub
