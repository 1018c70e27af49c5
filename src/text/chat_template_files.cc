#include "text/chat_template_files.h"

#include <cstdint>
#include <system_error>

#include "io/file.h"
#include "io/folder_entries.h"

namespace spillway::text {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxTemplateFileBytes = int64_t{64} << 20;
constexpr const char* kUsualFile = "chat_template.jinja";

}  // namespace

std::vector<fs::path> additional_chat_template_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const FolderEntry& entry : entries_of(folder / kAdditionalChatTemplates)) {
    const fs::path file = folder / kAdditionalChatTemplates / entry.name;
    if (entry.kind != EntryKind::kFolder && file.extension() == ".jinja") files.push_back(file);
  }
  return files;
}

ChatTemplateSources read_chat_template_files(const fs::path& folder) {
  ChatTemplateSources sources;
  // A broken link counts as there: reading it fails, and says what is wrong.
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder / kUsualFile, error)))
    sources.emplace_back("default", read_file(folder / kUsualFile, kMaxTemplateFileBytes));
  for (const fs::path& file : additional_chat_template_files(folder))
    sources.emplace_back(file.stem().string(), read_file(file, kMaxTemplateFileBytes));
  return sources;
}

}  // namespace spillway::text
