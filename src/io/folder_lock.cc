#include "io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "base/error.h"

namespace spillway {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_.get() < 0 || ::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw input_error(folder.string(), "expected a folder to write to, got \"{}\"; check it or choose another",
                      std::system_category().message(errno));
  }
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw input_error(folder.string(),
                      "expected a folder for this run alone, got one that another run is writing to; choose another "
                      "folder, or wait for that run");
  }
}

bool is_folder_held(const std::filesystem::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return false;
  // A line is "1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF". The device is not compared: btrfs has another here
  // than stat().
  const std::string inode = fmt::format("{}", status.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, how, access, process, place;
    words >> number >> kind >> how >> access >> process >> place;
    if (kind == "FLOCK" && access == "WRITE" && place.substr(place.rfind(':') + 1) == inode) return true;
  }
  return false;
}

}  // namespace spillway
