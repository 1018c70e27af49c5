#include "hub/selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "base/text.h"
#include "hub/pipeline.h"

namespace spillway::hub {
namespace {

bool matches_one(std::string_view path, std::span<const std::string> patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& one) { return matches(path, one); });
}

bool is_at_top(std::string_view path) { return path.find('/') == std::string_view::npos; }

// Matches "model.safetensors" and "model-00001-of-00002.safetensors" for the `stem` "model".
bool is_weights(std::string_view name, std::string_view stem) {
  return name == fmt::format("{}.safetensors", stem) ||
         matches(name, fmt::format("{}-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].safetensors", stem));
}

bool is_model_weights(std::string_view path) { return is_weights(path, "model"); }

const std::vector<std::string> kBesideWeights = {"*.json",  "*.jinja", "*.model",  "tokenizer*", "vocab*",
                                                 "merges*", "README*", "LICENSE*", "NOTICE*"};
const std::vector<std::string> kOtherWeights = {"*.bin",  "*.pt",   "*.pth", "*.msgpack",   "*.h5",
                                                "*.onnx", "*.gguf", "*.ot",  "*.index.json"};
const std::vector<std::string> kData = {"*.json", "*.jsonl",   "*.json.*", "*.jsonl.*", "*.csv",   "*.csv.*",
                                        "*.tsv",  "*.parquet", "*.arrow",  "*.txt",     "*.txt.*", "README.md"};

// Returns true if `names` contains `name`.
template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool has_weights(FolderUse use) { return use == FolderUse::kModel || use == FolderUse::kAdapter; }

// Only the top of a folder is read, except for further chat templates.
bool belongs_to_model(const RemoteFile& file) {
  if (file.path.starts_with("additional_chat_templates/")) return matches(file.path, "*.jinja");
  return is_at_top(file.path) && !file.path.starts_with('.') &&
         (matches_one(file.path, kBesideWeights) || file.path.ends_with(".safetensors"));
}

std::vector<RemoteFile> files_of_model(const Listing& listing, FolderUse use) {
  const auto is_named_so = [](const RemoteFile& file) { return is_model_weights(file.path); };
  const bool has_usual_names = std::any_of(listing.files.begin(), listing.files.end(), is_named_so);
  std::vector<RemoteFile> files;
  for (const RemoteFile& file : listing.files) {
    if (!belongs_to_model(file)) continue;
    const bool is_safetensors = file.path.ends_with(".safetensors");
    const bool is_usual = is_model_weights(file.path) || file.path == "adapter_model.safetensors" || !has_usual_names;
    if (is_safetensors && (!has_weights(use) || !is_usual)) continue;
    if (file.path != "model.safetensors.index.json" && !is_safetensors && matches_one(file.path, kOtherWeights))
      continue;
    files.push_back(file);
  }
  return files;
}

// Returns the transformers of a pipeline, and the files that are read of its other parts.
std::vector<RemoteFile> files_of_pipeline(const Listing& listing, FolderUse use) {
  constexpr std::string_view kReadOfOthers[] = {"vae/config.json", "scheduler/scheduler_config.json"};
  const std::string_view weights = kPartWeights, stem = weights.substr(0, weights.rfind('.'));
  const auto is_of_transformer = [&](std::string_view path) {
    const size_t slash = path.find('/');
    if (slash == std::string_view::npos || !contains(kTransformers, path.substr(0, slash))) return false;
    const std::string_view name = path.substr(slash + 1);
    return name == "config.json" || name == fmt::format("{}.index.json", weights) ||
           (has_weights(use) && is_weights(name, stem));
  };
  std::vector<RemoteFile> files;
  for (const RemoteFile& file : listing.files) {
    const bool is_beside = is_at_top(file.path) && belongs_to_model(file) && !file.path.ends_with(".safetensors");
    if (is_beside || contains(kReadOfOthers, file.path) || is_of_transformer(file.path)) files.push_back(file);
  }
  return files;
}

void check_weights(const Repository& repository, const Listing& listing, const std::vector<RemoteFile>& files) {
  const auto is_weights = [](const RemoteFile& file) { return file.path.ends_with(".safetensors"); };
  if (std::any_of(files.begin(), files.end(), is_weights)) return;
  std::vector<std::string> others;
  for (const RemoteFile& file : listing.files) {
    if (matches_one(file.path, kOtherWeights) && !file.path.ends_with(".json")) others.push_back(file.path);
  }
  constexpr size_t kShown = 8;
  const bool is_gguf =
      std::any_of(others.begin(), others.end(), [](const auto& name) { return name.ends_with(".gguf"); });
  throw input_error(
      shown_name(repository), "expected weights as safetensors, got {}{}; {}",
      others.empty()
          ? "none"
          : fmt::format("{}",
                        fmt::join(others.begin(),
                                  others.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, others.size())), ", ")),
      others.size() > kShown ? fmt::format(" and {} more", others.size() - kShown) : "",
      is_gguf ? fmt::format("fetch one of these ({} --include NAME) and name its file, or choose a model that has them",
                            fetch_command(repository))
              : "choose a model that has them, or convert it with transformers (save_pretrained)");
}

}  // namespace

bool matches(std::string_view path, const std::string& pattern) {
  return ::fnmatch((pattern.ends_with('/') ? pattern + "*" : pattern).c_str(), std::string(path).c_str(),
                   FNM_NOESCAPE) == 0;
}

std::vector<RemoteFile> select_files(const Repository& repository, const Listing& listing,
                                     std::span<const std::string> include, FolderUse use) {
  std::vector<RemoteFile> files;
  if (include.empty() && repository.kind == RepositoryKind::kModel) {
    const bool is_pipeline = std::any_of(listing.files.begin(), listing.files.end(),
                                         [](const RemoteFile& file) { return file.path == kPipelineIndex; });
    files = is_pipeline ? files_of_pipeline(listing, use) : files_of_model(listing, use);
    if (has_weights(use)) check_weights(repository, listing, files);
  } else {
    const std::span<const std::string> patterns = include.empty() ? kData : include;
    std::copy_if(listing.files.begin(), listing.files.end(), std::back_inserter(files),
                 [&](const RemoteFile& file) { return matches_one(file.path, patterns); });
  }
  for (const RemoteFile& file : files) {
    if (!is_inner_path(file.path))
      throw input_error(shown_name(repository), "expected names of files in a folder, got {}; do not use this {}",
                        quote(file.path), repository.noun());
  }
  if (files.empty())
    throw input_error(shown_name(repository), "expected files {}, got none among the {} of the {}; {}",
                      include.empty() ? "of data or a model" : fmt::format("like {}", fmt::join(include, ", ")),
                      listing.files.size(), repository.noun(),
                      include.empty() ? "name some with --include" : "correct --include");
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace spillway::hub
