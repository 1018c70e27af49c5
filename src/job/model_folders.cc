#include "job/model_folders.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/text.h"
#include "data/files/dataset_files.h"
#include "data/files/hub_cache.h"
#include "model/model_folder.h"

namespace spillway::train {
namespace {

// Appends the revision to a name of the hub.
std::string with_revision(const std::string& named, const std::string& revision) {
  std::error_code ignored;
  const std::optional<hub::Repository> repository = hub::repository_named(named);
  if (revision.empty() || !repository || std::filesystem::exists(named, ignored)) return named;
  if (repository->revision.empty()) return fmt::format("{}@{}", named, revision);
  if (repository->revision == revision) return named;
  throw input_error("revision_of_model", "expected the revision of base_model, {}, got {}; remove one of them",
                    quote(repository->revision), quote(revision));
}

void use_folder(std::string& named, std::string_view where, hub::FolderUse use, const hub::Lookup& lookup,
                std::string_view component = "transformer") {
  named = model_folder(named, where, use, lookup, component);
  if (!named.empty()) check_model_folder(named, where, use);
}

}  // namespace

void use_model_folders(config::Config& config, hub::FolderUse use, const hub::Lookup& lookup) {
  const bool is_tokenizer_beside = config.tokenizer.folder == config.model.base_model;
  config.model.base_model = with_revision(config.model.base_model, config.model.revision);
  use_folder(config.model.base_model, "base_model", use, lookup, config.video.component);
  if (is_tokenizer_beside) {
    config.tokenizer.folder = config.model.base_model;
  } else {
    use_folder(config.tokenizer.folder, "tokenizer_config", hub::FolderUse::kTokenizer, lookup);
  }
  if (config.preference) use_folder(config.preference->ref_model, "ref_model", use, lookup);
  if (config.distillation)
    use_folder(config.distillation->teacher_model_name_or_path, "teacher_model_name_or_path", use, lookup);
  if (config.online) use_folder(config.online->ppo.value_model, "value_model_path", use, lookup);
  if (config.rewards) {
    for (rewards::RewardEntry& entry : config.rewards->functions)
      entry.folder = model_folder(entry.folder, entry.where, use, lookup);
  }
  if (config.adapter) use_folder(config.adapter->model_dir, "lora_model_dir", hub::FolderUse::kAdapter, lookup);
}

void fetch_data_sets(const config::Config& config, const hub::Lookup& lookup) {
  for (const auto* list : {&config.data.datasets, &config.data.test_datasets}) {
    for (const data::DatasetConfig& one : *list) {
      if (const auto missing = data::missing_data_set(one)) hub::fetch_data_set(*missing, one.data_files, lookup);
    }
  }
}

}  // namespace spillway::train
