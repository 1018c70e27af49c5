#include "model/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/file_version.h"
#include "base/log.h"
#include "base/text.h"
#include "hub/pipeline.h"
#include "io/cache_folder.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "model/dit/adapter_files.h"
#include "model/gguf/import.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// The version of the files that an import writes; folders of other versions are made anew.
constexpr int kFormat = 1;

bool is_gguf(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  if (path.extension() == ".gguf") return true;
  const ReadFile file(path);
  std::array<char, 4> magic{};
  if (file.size() < static_cast<int64_t>(magic.size())) return false;
  file.read(0, std::as_writable_bytes(std::span(magic)));
  return std::string_view(magic.data(), magic.size()) == "GGUF";
}

// Returns true for an adapter as ComfyUI and kohya's trainers save it, by any of its tensors.
bool is_foreign_adapter(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || !is_adapter_file(path)) return false;
  const SafetensorsFile file(path);
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [](const StoredTensor& tensor) { return !own_factor_name(tensor.name).empty(); });
}

// Returns true for the output of full training: a component alone, without the pipeline's index.
bool is_part_of_pipeline(const fs::path& folder, std::string_view component) {
  std::error_code error;
  return !fs::exists(folder / "config.json", error) && fs::is_regular_file(folder / component / "config.json", error);
}

std::string chosen_component(std::string folder, std::string_view where, std::string_view component) {
  if (component.empty() || folder.empty()) return folder;
  std::error_code error;
  const bool is_pipeline = fs::is_regular_file(fs::path(folder) / hub::kPipelineIndex, error);
  if (!is_pipeline && !is_part_of_pipeline(folder, component)) return folder;
  const fs::path path = fs::path(folder) / component;
  if (fs::is_directory(path, error)) return path.string();
  throw input_error(where, "expected a folder {} in the pipeline {}, got none; name another component", component,
                    folder);
}

std::string hash_text(const std::string& text) { return checksum_text(std::as_bytes(std::span(text))); }

// The names of a file's folders begin with the first, and that of the file as it is now is the second.
struct CacheName {
  std::string file, content;
};

CacheName cache_name(const fs::path& path) {
  const std::string file = fmt::format("{}-{}-", path.stem().string(), hash_text(fs::canonical(path).string()));
  const auto [bytes, modified, status_changed] = file_version(path);
  return {file, file + hash_text(fmt::format("{} {} {} {}", bytes, modified, status_changed, kFormat))};
}

void remove_older(const fs::path& folders, const CacheName& name) {
  std::vector<fs::path> older;
  for (const fs::directory_entry& entry : fs::directory_iterator(folders)) {
    const std::string other = entry.path().filename().string();
    if (other.starts_with(name.file) && other.size() == name.content.size() && other != name.content)
      older.push_back(entry.path());
  }
  for (const fs::path& folder : older) remove_folder(folder);
}

}  // namespace

std::string model_folder(const std::string& named, std::string_view where, hub::FolderUse use,
                         const hub::Lookup& lookup, std::string_view component) {
  const bool is_adapter = use == hub::FolderUse::kAdapter && is_foreign_adapter(named);
  if (!is_adapter && !is_gguf(named))
    return chosen_component(hub::folder_of(named, where, use, lookup), where, component);
  const fs::path cache = cache_folder();
  if (cache.empty()) {
    throw input_error(where,
                      "expected a home folder, which keeps what {} becomes, got none; set HOME or XDG_CACHE_HOME, or "
                      "import it (spillway import)",
                      named);
  }
  const fs::path folders = cache / (is_adapter ? "adapters" : "models");
  const CacheName name = cache_name(named);
  const fs::path folder = folders / name.content;
  if (fs::exists(folder / (is_adapter ? "pytorch_lora_weights.safetensors" : "config.json"))) return folder.string();
  log_info("importing {} into {}, once", named, folder.string());
  create_folders(folders);
  if (is_adapter) {
    import_video_adapter(named, folder);
  } else {
    import_gguf(named, folder);
  }
  remove_older(folders, name);
  return folder.string();
}

void check_model_folder(const std::string& folder, std::string_view where, hub::FolderUse use) {
  const bool is_adapter = use == hub::FolderUse::kAdapter;
  const std::string_view noun = is_adapter ? "an adapter" : "a model";
  std::error_code error;
  if (!fs::exists(folder, error))
    throw input_error(where,
                      "expected the folder of {}, got {}, where nothing is; check the path, or write a name of "
                      "the hub (org/name)",
                      noun, quote(folder));
  if (!fs::is_directory(folder, error))
    throw input_error(where, "expected the folder of {}, got the file {}; name the folder that it lies in", noun,
                      quote(folder));
  const auto has = [&](std::string_view file) {
    return fs::exists(fs::symlink_status(fs::path(folder) / file, error));
  };
  if (is_adapter) {
    // The config.json of a whole model is recognised later, when it is read.
    if (!has("adapter_config.json") && !has("pytorch_lora_weights.safetensors") && !has("config.json"))
      throw input_error(where,
                        "expected the folder of an adapter, with adapter_config.json, got {} without; name one as "
                        "PEFT saves it",
                        quote(folder));
  } else if (use != hub::FolderUse::kTokenizer && !has("config.json") && !has(hub::kPipelineIndex) &&
             !is_part_of_pipeline(folder, "transformer") && (!has("tokenizer.json") || has("adapter_config.json"))) {
    const bool is_of_adapter = has("adapter_config.json");
    throw input_error(where, "expected the folder of a model, with config.json, got {} {}; {}", quote(folder),
                      is_of_adapter ? "with an adapter" : "without",
                      is_of_adapter ? "name its base, and this as the adapter, or what `spillway merge` makes of both"
                                    : "name one as transformers saves it");
  }
  if (use == hub::FolderUse::kModel && has("config.json") && has("adapter_config.json")) {
    log_warning(
        "{}: {} holds an adapter, too, which transformers would load; the model is used without it, unless it "
        "is named as the adapter",
        where, quote(folder));
  }
}

}  // namespace spillway
