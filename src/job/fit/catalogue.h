// Machines and models that are known by name: machines/*.json, machines/models/*.json. They let a user ask what would
// fit before there is any file.
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

// By the whole name, or one that means it (job/fit/known_name.h); a model also by its beginning where no other begins
// so. Throws InputError at `where`, naming those that are meant or near.
[[nodiscard]] Machine machine_by_name(std::string_view name, std::string_view where);
[[nodiscard]] ModelShape model_by_name(std::string_view name, std::string_view where);

// A model as a folder that plans are made of, and what a config calls it.
struct NamedModel {
  std::string folder, name;
};
// A folder or a GGUF file of the user's, or else a folder in `room`, which is made where it is not there, with the
// config.json of a known model, or the hub's cache where a name with a slash is of none. A name of the hub stays what
// the model is called. Throws InputError as above.
[[nodiscard]] NamedModel named_model(const std::string& name, std::optional<TemporaryFolder>& room,
                                     std::string_view where);

// In the order of their letters.
[[nodiscard]] std::vector<std::string> machine_names();
[[nodiscard]] std::vector<std::string> model_names();

}  // namespace spillway
