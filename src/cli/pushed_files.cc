#include "cli/pushed_files.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include "base/error.h"
#include "hub/selection.h"
#include "io/file.h"
#include "model/copied_files.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// Returns true for folders of an output_dir that are not the model's.
bool is_beside_model(std::string_view folder) {
  constexpr std::array<std::string_view, 6> kNames = {"runs", "wandb", "mlruns", "scratch", "preprocessed", "relora"};
  return folder.starts_with("checkpoint-") || std::find(kNames.begin(), kNames.end(), folder) != kNames.end();
}

bool is_of_model(std::string_view file) {
  const bool is_scores = file.starts_with("reference-") && file.ends_with(".safetensors");
  return !is_of_run(file) && !is_scores && file != "spillway_state.safetensors";
}

// Throws if a link at this depth of a folder leads to a folder that it lies in.
void check_no_loop(const fs::path& link, int depth) {
  fs::path above = link;
  for (int i = 0; i <= depth; ++i) {
    above = above.parent_path();
    if (fs::equivalent(above, link))
      throw input_error(link.string(),
                        "expected a link to another folder, got one to a folder that it is in; remove it");
  }
}

// Returns the files for whose names, with slashes, `is_wanted` returns true, in the order of these. `enters` is asked
// about the names of folders; links to folders are followed.
std::vector<hub::PushedFile> files_of(const fs::path& folder, const std::function<bool(std::string_view)>& enters,
                                      const std::function<bool(const std::string&)>& is_wanted) {
  std::vector<hub::PushedFile> files;
  constexpr auto kFollow = fs::directory_options::follow_directory_symlink;
  for (auto it = fs::recursive_directory_iterator(folder, kFollow); it != fs::recursive_directory_iterator(); ++it) {
    const std::string own = it->path().filename().string();
    const bool is_hidden = own.starts_with('.');
    if (it->is_directory()) {
      if (is_hidden || !enters(own)) {
        it.disable_recursion_pending();
      } else if (it->is_symlink()) {
        check_no_loop(it->path(), it.depth());
      }
      continue;
    }
    const std::string name = it->path().lexically_relative(folder).generic_string();
    if (is_hidden || !it->is_regular_file() || !is_wanted(name)) continue;
    files.push_back({it->path(), name, ReadFile(it->path()).size()});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

}  // namespace

std::vector<hub::PushedFile> files_to_push(const fs::path& folder, const std::vector<std::string>& include) {
  if (!fs::exists(folder))
    throw input_error(folder.string(), "expected a folder or a file to push, got none; correct the name");
  if (!fs::is_directory(folder)) return {{folder, folder.filename().string(), ReadFile(folder).size()}};
  const auto enters = [&](std::string_view name) { return !include.empty() || !is_beside_model(name); };
  const auto is_wanted = [&](const std::string& name) {
    if (include.empty()) return is_of_model(std::string_view(name).substr(name.rfind('/') + 1));
    return std::any_of(include.begin(), include.end(),
                       [&](const std::string& pattern) { return hub::matches(name, pattern); });
  };
  std::vector<hub::PushedFile> files = files_of(folder, enters, is_wanted);
  if (files.empty())
    throw input_error(folder.string(), "expected files of a model, got none; {}",
                      include.empty() ? "name its folder" : "correct --include");
  return files;
}

std::vector<hub::PushedFile> checkpoint_to_push(const fs::path& checkpoint, const std::string& name) {
  std::vector<hub::PushedFile> files = files_of(
      checkpoint, [](std::string_view) { return true; }, [](const std::string&) { return true; });
  for (hub::PushedFile& file : files) file.name = name + "/" + file.name;
  return files;
}

}  // namespace spillway
