// Finds folders by the names that models, adapters and data sets have on the Hugging Face hub.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/cache.h"
#include "hub/repository.h"

namespace spillway::hub {

struct Lookup {
  // Whether to fetch files that the cache does not have, unless HF_HUB_OFFLINE forbids it.
  bool may_fetch = false;
  std::function<void(int64_t done, int64_t total)> on_progress{};
};

// Returns `named` unchanged if it is empty, an existing path, or not spelled like a name of the hub; else the folder of
// its snapshot in the cache, as it was when it was last fetched: if the cache has all files (missing_files()), the hub
// is not asked for a newer one. Fetches missing files, for names with a slash only, and logs that on standard error. A
// name whose first part is a folder here is a path, and so is one without a slash, unless the cache has it.
//
// `where` (a config key or MODEL) is named in errors: InputError if the cache does not have it, or not all of it, and
// it may not be fetched. Throws as fetch() (hub/fetch.h).
[[nodiscard]] std::string folder_of(const std::string& named, std::string_view where, FolderUse use,
                                    const Lookup& lookup);

// Fetches a data set that the cache does not have, if that is allowed and its name is no path, as above. `include`:
// patterns, or none for all of its data. Throws as fetch().
void fetch_data_set(const Repository& repository, const std::vector<std::string>& include, const Lookup& lookup);

// Returns the public name of a model: "org/name" for a snapshot's folder, else the folder's own name.
[[nodiscard]] std::string name_elsewhere(const std::string& folder);

}  // namespace spillway::hub
