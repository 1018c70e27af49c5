// The models and data sets that a config names, as folders.
#pragma once

#include "config/config.h"
#include "hub/lookup.h"

namespace spillway::train {

// Puts folders in place of GGUF files and names of the hub (model/model_folder.h). `use`: what base_model, ref_model
// and reward models are wanted for. Throws InputError at the key of a file that cannot be imported, or a name that has
// no folder.
//
// A name of the hub in base_model has the config's revision; base_model of a tokenizer beside it, too. Throws
// InputError where the name has another revision already.
void use_model_folders(config::Config& config, hub::FolderUse use, const hub::Lookup& lookup = {});

// Fetches the data sets that are named as on the hub and not on this machine, where `lookup` allows it. Names stay:
// data/files/hub_cache.h finds their files.
void fetch_data_sets(const config::Config& config, const hub::Lookup& lookup);

}  // namespace spillway::train
