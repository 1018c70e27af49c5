#include "model/other_files.h"

#include <algorithm>
#include <array>

#include "io/file.h"
#include "io/folder_record.h"

namespace spillway {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

bool is_weights(std::string_view name) {
  constexpr std::array<std::string_view, 12> kEndings = {".safetensors", ".safetensors.index.json",
                                                         ".bin",         ".bin.index.json",
                                                         ".gguf",        ".pt",
                                                         ".pth",         ".h5",
                                                         ".msgpack",     ".ot",
                                                         ".onnx",        ".ckpt"};
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

bool is_of_tokenizer(std::string_view name) {
  return name.starts_with("tokenizer") || name == "special_tokens_map.json" || name == "added_tokens.json" ||
         name == "vocab.json" || name == "merges.txt" || name == "chat_template.jinja";
}

void copy_other_files(const std::filesystem::path& from, const std::filesystem::path& to,
                      const std::function<bool(std::string_view name)>& wanted) {
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && !is_weights(name) && name != "README.md" && name != kRecordName && wanted(name))
      write_file(to / name, read_file(entry.path(), kMaxFileBytes));
  }
}

}  // namespace spillway
