#include "io/disk_space.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"

namespace spillway {
namespace {

dev_t disk_of(const std::string& folder) {
  struct stat status {};
  return ::stat(existing_folder(folder).c_str(), &status) == 0 ? status.st_dev : dev_t{0};
}

}  // namespace

std::filesystem::path existing_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(folder, error);
  while (!error && !std::filesystem::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  return at;
}

std::string disks_of(std::span<const std::string> folders) {
  std::multiset<dev_t> disks;
  for (const std::string& folder : folders) disks.insert(disk_of(folder));
  std::string text;
  for (const dev_t disk : disks) text += fmt::format("{}{}:{}", text.empty() ? "" : " ", major(disk), minor(disk));
  return text;
}

std::optional<int64_t> known_free_bytes(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(existing_folder(folder), error);
  if (error || space.capacity == 0) return {};
  return static_cast<int64_t>(std::min<uintmax_t>(space.available, std::numeric_limits<int64_t>::max()));
}

int64_t free_disk_bytes(const std::filesystem::path& folder) { return known_free_bytes(folder).value_or(0); }

void check_disk_room(const std::filesystem::path& folder, int64_t bytes) {
  const std::optional<int64_t> room = known_free_bytes(folder);
  if (!room || *room >= bytes) return;
  throw machine_error(folder.string(),
                      "expected room on the disk for {}, got {}; free some space or choose another folder",
                      format_bytes(bytes), format_bytes(*room));
}

int64_t free_striped_bytes(std::span<const std::string> folders) {
  std::map<dev_t, int64_t> stripes;  // by file system
  for (const std::string& folder : folders) ++stripes[disk_of(folder)];
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const std::string& folder : folders) least = std::min(least, free_disk_bytes(folder) / stripes[disk_of(folder)]);
  return least * std::ssize(folders);
}

}  // namespace spillway
