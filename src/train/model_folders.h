// The models that a config names, as folders.
#pragma once

#include "config/config.h"

namespace spillway::train {

// Puts folders in place of GGUF files (model/model_folder.h). Throws InputError at the key of a file that cannot be
// imported.
void use_model_folders(config::Config& config);

}  // namespace spillway::train
