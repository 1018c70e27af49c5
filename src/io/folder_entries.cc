#include "io/folder_entries.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <string_view>

#include "base/error.h"
#include "io/file_error.h"

namespace spillway {
namespace fs = std::filesystem;

namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using OpenFolder = std::unique_ptr<DIR, CloseFolder>;

// Opens `name` below the folder `parent`; null if it is no folder, links included.
OpenFolder open_folder(int parent, const char* name, int flags) noexcept {
  const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
  if (fd < 0) return nullptr;
  OpenFolder folder(::fdopendir(fd));
  if (!folder) {
    const int error = errno;
    ::close(fd);
    errno = error;
  }
  return folder;
}

// Returns the next entry other than `.` and `..`; null at the end, and with an errno if it cannot be read.
const dirent* next_entry(DIR* folder) noexcept {
  const dirent* entry = nullptr;
  do {
    errno = 0;
    entry = ::readdir(folder);
  } while (entry != nullptr && (std::string_view(entry->d_name) == "." || std::string_view(entry->d_name) == ".."));
  return entry;
}

EntryKind entry_kind(DIR* folder, const dirent& entry) {
  unsigned char type = entry.d_type;
  struct stat status {};
  if (type == DT_UNKNOWN && ::fstatat(::dirfd(folder), entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
    type = IFTODT(status.st_mode);
  return type == DT_REG ? EntryKind::kFile : type == DT_DIR ? EntryKind::kFolder : EntryKind::kOther;
}

void remove_below(int parent, const char* name) noexcept {
  if (::unlinkat(parent, name, 0) == 0) return;
  // Entries removed between two reads of a large folder may hide others from the second, so it is read until a pass
  // removes nothing.
  for (bool is_removing = true; is_removing && ::unlinkat(parent, name, AT_REMOVEDIR) != 0;) {
    is_removing = false;
    const OpenFolder folder = open_folder(parent, name, O_NOFOLLOW);
    if (!folder) return;
    while (const dirent* entry = next_entry(folder.get())) {
      remove_below(::dirfd(folder.get()), entry->d_name);
      is_removing = is_removing || ::faccessat(::dirfd(folder.get()), entry->d_name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
    }
  }
}

void add_files_below(const fs::path& folder, const std::string& prefix, std::vector<std::string>& files,
                     std::vector<std::string>* others) {
  for (const FolderEntry& entry : entries_of(folder)) {
    std::string name = prefix + entry.name;
    if (entry.kind == EntryKind::kFolder) {
      add_files_below(folder / entry.name, name + "/", files, others);
    } else if (entry.kind == EntryKind::kFile) {
      files.push_back(std::move(name));
    } else if (others != nullptr) {
      others->push_back(std::move(name));
    }
  }
}

}  // namespace

std::vector<FolderEntry> entries_of(const fs::path& folder) {
  std::vector<FolderEntry> entries;
  const auto fail = [&](int error) {
    if (error == ENOMEM) throw std::bad_alloc();
    throw_file_error(folder, "be read", error);
  };
  const OpenFolder open = open_folder(AT_FDCWD, folder.c_str(), 0);
  if (!open && (errno == ENOENT || errno == ENOTDIR)) return entries;
  if (!open) fail(errno);
  while (const dirent* entry = next_entry(open.get()))
    entries.push_back({entry->d_name, entry_kind(open.get(), *entry)});
  if (errno != 0) fail(errno);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

std::vector<FolderEntry> readable_entries_of(const fs::path& folder) {
  try {
    return entries_of(folder);
  } catch (const InputError&) {
  } catch (const MachineError&) {
  }
  return {};
}

std::vector<std::string> files_below(const fs::path& folder, std::vector<std::string>* others) {
  std::vector<std::string> files;
  add_files_below(folder, "", files, others);
  return files;
}

void remove_tree(const fs::path& path) noexcept { remove_below(AT_FDCWD, path.c_str()); }

}  // namespace spillway
