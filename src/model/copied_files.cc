#include "model/copied_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "base/sizes.h"
#include "io/file.h"
#include "io/folder_record.h"
#include "text/chat_template_files.h"

namespace spillway {
namespace {

bool is_weights(std::string_view name) {
  constexpr std::array<std::string_view, 16> kEndings = {".safetensors", ".safetensors.index.json",
                                                         ".bin",         ".bin.index.json",
                                                         ".gguf",        ".pt",
                                                         ".pth",         ".h5",
                                                         ".msgpack",     ".ot",
                                                         ".npz",         ".npy",
                                                         ".tflite",      ".ckpt",
                                                         ".pdparams",    ".keras"};
  // .onnx has its data in files beside it, under names that begin with its own.
  return name.find(".onnx") != std::string_view::npos ||
         std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) { return name.ends_with(ending); });
}

// Returns the path within its model's folder.
std::string name_within(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  const std::string folder = file.parent_path().filename().string();
  return folder == text::kAdditionalChatTemplates ? fmt::format("{}/{}", folder, name) : name;
}

}  // namespace

bool is_of_tokenizer(std::string_view name) {
  return name.starts_with("tokenizer") || name == "special_tokens_map.json" || name == "added_tokens.json" ||
         name == "vocab.json" || name == "merges.txt" || is_chat_template(name);
}

bool is_chat_template(std::string_view name) {
  return name == "chat_template.jinja" || std::filesystem::path(name).parent_path() == text::kAdditionalChatTemplates;
}

bool is_of_run(std::string_view name) {
  constexpr std::array<std::string_view, 9> kNames = {"completions.jsonl", "metrics.jsonl",       "samples.jsonl",
                                                      "plan.json",         "report.html",         "report.json",
                                                      "spillway_run.json", "spillway_state.json", "trainer_state.json"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::vector<std::filesystem::path> files_to_copy(const std::filesystem::path& folder,
                                                 const std::function<bool(std::string_view name)>& wanted) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || is_weights(name) || is_of_run(name) || name == "README.md" || name == kRecordName ||
        !wanted(name))
      continue;
    (void)ReadFile(entry.path());
    files.push_back(entry.path());
  }
  for (const std::filesystem::path& file : text::additional_chat_template_files(folder)) {
    if (wanted(name_within(file))) files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  return files;
}

void copy_files(const std::vector<std::filesystem::path>& files, const std::filesystem::path& to) {
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  std::vector<std::byte> piece;
  for (const std::filesystem::path& path : files) {
    const ReadFile file(path);
    const std::filesystem::path copied = to / name_within(path);
    create_folders(copied.parent_path());
    AtomicFile copy(copied);
    for (int64_t done = 0; done < file.size(); done += std::ssize(piece)) {
      resize(piece, std::min(kPieceBytes, file.size() - done));
      file.read(done, piece);
      copy.append(piece);
    }
    copy.commit();
  }
}

}  // namespace spillway
