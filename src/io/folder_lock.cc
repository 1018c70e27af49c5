#include "io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
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

}  // namespace spillway
