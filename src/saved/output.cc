#include "saved/output.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "data/files/dataset_files.h"
#include "io/file.h"
#include "io/folder_entries.h"
#include "io/folder_record.h"
#include "io/temporary_name.h"
#include "model/layout.h"

namespace spillway::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrain = "train";  // as folders are recorded

constexpr std::array<std::string_view, 26> kNames = {"README.md",
                                                     "adapter_config.json",
                                                     "adapter_model.safetensors",
                                                     "added_tokens.json",
                                                     "chat_template.jinja",
                                                     "chat_template.json",
                                                     "completions.jsonl",
                                                     "config.json",
                                                     "generation_config.json",
                                                     "merges.txt",
                                                     "metrics.jsonl",
                                                     "plan.json",
                                                     "preprocessor_config.json",
                                                     "processor_config.json",
                                                     "pytorch_lora_weights.safetensors",
                                                     "pytorch_lora_weights_ema.safetensors",
                                                     "report.html",
                                                     "report.json",
                                                     "samples.jsonl",
                                                     "special_tokens_map.json",
                                                     "spillway_run.json",
                                                     "tokenizer.json",
                                                     "tokenizer.model",
                                                     "tokenizer_config.json",
                                                     "video_preprocessor_config.json",
                                                     "vocab.json"};

void add_datasets(std::string_view key, const std::vector<data::DatasetConfig>& datasets,
                  std::vector<CommandInput>& inputs) {
  for (const data::DatasetConfig& dataset : datasets) {
    inputs.push_back({std::string(key), dataset.path});
    try {
      for (const fs::path& file : data::dataset_files(dataset)) inputs.push_back({std::string(key), file});
    } catch (const InputError&) {  // whoever reads it says what is wrong
    }
  }
}

}  // namespace

std::vector<CommandInput> inputs_of(const config::Config& config) {
  std::vector<CommandInput> inputs = {{"base_model", config.model.base_model},
                                      {"tokenizer_config", config.tokenizer.folder},
                                      {"lora_model_dir", config.adapter ? config.adapter->model_dir : ""},
                                      {"chat_template_jinja", config.data.rows.chat_template_jinja}};
  add_datasets("datasets", config.data.datasets, inputs);
  add_datasets("test_datasets", config.data.test_datasets, inputs);
  return inputs;
}

bool is_training_file(std::string_view name) {
  const bool is_model =
      name.starts_with("model") && (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"));
  const bool is_scores = name.starts_with("reference-") && name.ends_with(".safetensors");
  return is_model || is_scores || std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool is_result_file(std::string_view name) {
  constexpr std::array<std::string_view, 8> kOthers = {"README.md",     "completions.jsonl", "metrics.jsonl",
                                                       "plan.json",     "report.html",       "report.json",
                                                       "samples.jsonl", "spillway_run.json"};
  return is_training_file(name) && !name.starts_with("reference-") &&
         std::find(kOthers.begin(), kOthers.end(), name) == kOthers.end();
}

namespace {

// Returns true if a run wrote the folder as a component of its pipeline, rather than as the output_dir of another run.
bool is_component(const fs::path& folder) {
  const std::optional<FolderRecord> record = read_record(folder);
  return record && record->command == kTrain &&
         std::any_of(record->files.begin(), record->files.end(),
                     [](const RecordedFile& file) { return file.name.starts_with(weights_stem(Layout::kDiffusers)); });
}

}  // namespace

void remove_earlier_result(const fs::path& folder) {
  const std::optional<FolderRecord> record = read_record(folder);
  if (!record || record->command != kTrain) return;
  // Without these files, the folder is not recognised as a model or an adapter.
  constexpr std::array<std::string_view, 2> kConfigs = {"config.json", "adapter_config.json"};
  std::error_code none;
  for (const std::string_view name : kConfigs) {
    const bool is_ours = std::any_of(record->files.begin(), record->files.end(),
                                     [&](const RecordedFile& file) { return file.name == name; });
    if (is_ours) fs::remove(folder / name, none);
  }
  for (const RecordedFile& file : record->files) {
    if (is_result_file(file.name)) fs::remove(folder / file.name, none);
  }
  for (const FolderEntry& entry : readable_entries_of(folder)) {
    const bool is_folder = entry.kind == EntryKind::kFolder && !is_temporary_name(entry.name);
    if (is_folder && is_component(folder / entry.name)) remove_folder(folder / entry.name);
  }
}

SharedOutput training_output(const config::Config& config) {
  check_apart("output_dir", config.output.output_dir, inputs_of(config));
  // Other folders of the config may be in it.
  const std::vector<std::string>& disks = config.memory.disk_paths;
  std::vector<fs::path> known(disks.begin(), disks.end());
  known.emplace_back(config.data.prepared_path);
  return {"output_dir", config.output.output_dir, kTrain, is_training_file, known};
}

}  // namespace spillway::train
