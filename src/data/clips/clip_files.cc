#include "data/clips/clip_files.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/clips/parquet_clips.h"
#include "data/clips/safetensors_clip.h"
#include "data/files/split_files.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;

bool is_clip_file(const fs::path& path) { return path.extension() == ".parquet" || path.extension() == ".safetensors"; }

bool is_left_out(const fs::path& name) { return name.string().starts_with('.') || name == "map_style_cache"; }

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::follow_directory_symlink, error), end;
  while (!error && at != end) {
    std::error_code ignored;
    if (is_left_out(at->path().filename())) {
      at.disable_recursion_pending();
    } else if (is_clip_file(at->path()) && at->is_regular_file(ignored)) {
      files.push_back(at->path());
    }
    constexpr int kMaxDepth = 64;  // links may lead back up
    if (at.depth() >= kMaxDepth) at.disable_recursion_pending();
    at.increment(error);
  }
  if (error)
    throw input_error(folder.string(), "expected a folder that can be read, got \"{}\"; correct its permissions",
                      error.message());
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return files;
}

}  // namespace

std::unique_ptr<ClipFile> open_clip_file(const fs::path& path, PageCursors& cursors) {
  if (path.extension() == ".parquet") return make_parquet_clips(path, cursors);
  if (path.extension() == ".safetensors") return make_safetensors_clip(path);
  throw input_error(path.string(), "expected FILE.parquet or FILE.safetensors, got another name; rename it");
}

std::vector<fs::path> clip_files(const DatasetConfig& config) {
  std::error_code error;
  const fs::path path = config.path;
  std::vector<fs::path> files;
  if (fs::is_directory(path, error)) {
    files = files_below(path);
  } else if (fs::exists(path, error)) {
    files = {path};
  } else if (has_wildcards(config.path)) {
    files = match_files(config.path);
  } else {
    throw input_error(config.path,
                      "expected a folder or a file with rows of video latents, got no such path; correct it");
  }
  if (files.empty())
    throw input_error(config.path,
                      "expected files *.parquet or *.safetensors, got none; correct the path, or make "
                      "latents and text embeddings first (docs/data/clips.md)");
  return files;
}

}  // namespace spillway::data
