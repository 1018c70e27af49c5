#include "io/name_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "io/file.h"
#include "io/folder_record.h"

namespace spillway {
namespace fs = std::filesystem;

namespace {

struct WatchedFolder {
  const NameWatch* watch = nullptr;
  struct stat folder {};
  std::function<void(const std::string&)> heard;
};

std::mutex g_watch_mutex;
std::vector<WatchedFolder> g_watched_folders;

}  // namespace

NameWatch::NameWatch(const fs::path& folder, std::function<void(const std::string& name)> heard) {
  WatchedFolder watched{this, {}, std::move(heard)};
  ::stat(folder.c_str(), &watched.folder);
  const std::lock_guard lock(g_watch_mutex);
  g_watched_folders.push_back(std::move(watched));
}

NameWatch::~NameWatch() {
  const std::lock_guard lock(g_watch_mutex);
  std::erase_if(g_watched_folders, [&](const WatchedFolder& one) { return one.watch == this; });
}

void tell_name(const fs::path& file) {
  // Ignores a record, which is written while it hears of another file.
  if (file.filename() == kRecordName) return;
  const std::lock_guard lock(g_watch_mutex);
  if (g_watched_folders.empty()) return;
  struct stat folder {};
  if (::stat(folder_of(file).c_str(), &folder) != 0) return;
  for (const WatchedFolder& one : g_watched_folders) {
    if (one.folder.st_dev == folder.st_dev && one.folder.st_ino == folder.st_ino) one.heard(file.filename().string());
  }
}

}  // namespace spillway
