// Resolves the models and data sets that a config names to folders.
#pragma once

#include "config/config.h"
#include "hub/lookup.h"

namespace spillway::train {

// Replaces GGUF files and hub names in the config with folders (model/model_folder.h). `use` says what base_model,
// ref_model and reward models are needed for. Throws InputError at the key of a file that cannot be imported, or of a
// name that has no folder.
//
// A hub name in base_model gets the config's revision, also where the tokenizer names base_model. Throws InputError if
// the name already has another revision.
void use_model_folders(config::Config& config, hub::FolderUse use, const hub::Lookup& lookup = {});

// Downloads the data sets with hub names that are not on this machine, if `lookup` allows it. The names stay in the
// config: data/files/hub_cache.h finds their files.
void fetch_data_sets(const config::Config& config, const hub::Lookup& lookup);

}  // namespace spillway::train
