#include "train/model_folders.h"

#include "model/model_folder.h"

namespace spillway::train {

void use_model_folders(config::Config& config) {
  config.model.base_model = model_folder(config.model.base_model, "base_model");
  config.tokenizer.folder = model_folder(config.tokenizer.folder, "tokenizer_config");
  if (config.preference) config.preference->ref_model = model_folder(config.preference->ref_model, "ref_model");
}

}  // namespace spillway::train
