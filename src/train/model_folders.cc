#include "train/model_folders.h"

#include "data/files/dataset_files.h"
#include "data/files/hub_cache.h"
#include "model/model_folder.h"

namespace spillway::train {

void use_model_folders(config::Config& config, hub::FolderUse use, const hub::Lookup& lookup) {
  const bool is_tokenizer_beside = config.tokenizer.folder == config.model.base_model;
  config.model.base_model = model_folder(config.model.base_model, "base_model", use, lookup, config.video.component);
  config.tokenizer.folder = is_tokenizer_beside ? config.model.base_model
                                                : model_folder(config.tokenizer.folder, "tokenizer_config",
                                                               hub::FolderUse::kTokenizer, lookup);
  if (config.preference)
    config.preference->ref_model = model_folder(config.preference->ref_model, "ref_model", use, lookup);
  if (config.adapter)
    config.adapter->model_dir =
        model_folder(config.adapter->model_dir, "lora_model_dir", hub::FolderUse::kAdapter, lookup);
}

void fetch_data_sets(const config::Config& config, const hub::Lookup& lookup) {
  for (const auto* list : {&config.data.datasets, &config.data.test_datasets}) {
    for (const data::DatasetConfig& one : *list) {
      if (const auto missing = data::missing_data_set(one)) hub::fetch_data_set(*missing, one.data_files, lookup);
    }
  }
}

}  // namespace spillway::train
