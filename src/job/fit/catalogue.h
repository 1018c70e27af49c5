// The catalogue of known machines and models: machines/*.json, machines/models/*.json. It lets a user ask what would
// fit before there are any files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/temporary_folder.h"
#include "plan/machine.h"

namespace spillway {

struct ModelShape {
  std::string name;    // "llama-3-8b"
  std::string hub_id;  // "meta-llama/Meta-Llama-3-8B"
  std::string config;  // of the model, config.json
};

// Return an entry by its whole name, or a variant of it (job/fit/known_name.h); a model also by an unambiguous prefix.
// Throw InputError at `where`, naming the entries that may be meant or are near, or saying why nothing runs there.
[[nodiscard]] Machine machine_by_name(std::string_view name, std::string_view where);
[[nodiscard]] ModelShape model_by_name(std::string_view name, std::string_view where);

// A model as a folder for which plans can be made, and its name for a config.
struct NamedModel {
  std::string folder, name;
};
// Returns a folder or GGUF file of the user's; else the folder of a known model's config.json in `room`, which is
// created if necessary; or, for an unknown name with a slash, the folder in the hub's cache. The name of the model
// stays its hub name. Throws InputError as above.
[[nodiscard]] NamedModel named_model(const std::string& name, std::optional<TemporaryFolder>& room,
                                     std::string_view where);

// Return the names in alphabetical order; of machines those that can be planned for.
[[nodiscard]] std::vector<std::string> machine_names();
[[nodiscard]] std::vector<std::string> model_names();

}  // namespace spillway
