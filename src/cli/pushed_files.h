// The files of a folder that go to the hub.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hub/push.h"

namespace spillway {

// Returns the files of a folder by their names in it: those that match one of `include`, or, if that is empty, the
// model's, without checkpoints, the logs of its run and a checkpoint's state. Hidden files are left out in any case.
// Links are followed. A file is itself. Throws InputError if there are none, or if a link leads to a folder above it.
[[nodiscard]] std::vector<hub::PushedFile> files_to_push(const std::filesystem::path& folder,
                                                         const std::vector<std::string>& include);

// Returns all files of a checkpoint, its state, too, under `name` in the repository.
[[nodiscard]] std::vector<hub::PushedFile> checkpoint_to_push(const std::filesystem::path& checkpoint,
                                                              const std::string& name);

}  // namespace spillway
