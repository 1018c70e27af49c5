#include "io/file_error.h"

#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.h"

namespace spillway {
namespace fs = std::filesystem;

std::string reason_of(int error) { return std::system_category().message(error); }

void throw_file_error(const fs::path& path, std::string_view action, int error) {
  const std::string where = path.string();
  switch (error) {
    case ENOENT:
      throw input_error(where, "expected a file or folder, got nothing of that name; check the path");
    case ENOTDIR:
      throw input_error(where, "expected a folder, got a file in the middle of the path; check the path");
    case EISDIR:
      throw input_error(where, "expected a file, got a folder; give the path of a file");
    case ELOOP:
      throw input_error(where, "expected a file, got a circle of symbolic links; check the path");
    case ENAMETOOLONG:
      throw input_error(where.substr(0, 80) + "...", "expected a path, got one that is too long; check the path");
    case EACCES:
    case EPERM:
    case EROFS:
      throw input_error(where,
                        "expected a path that can {}, got \"{}\"; check its permissions or choose another folder",
                        action, reason_of(error));
    case ENOSPC:
    case EDQUOT:
      throw machine_error(where, "expected room on the disk, got \"{}\"; free some space or choose another folder",
                          reason_of(error));
    default:
      throw machine_error(where, "expected a path that can {}, got \"{}\"; check the disk and try again", action,
                          reason_of(error));
  }
}

void throw_file_error(const fs::filesystem_error& error) {
  const fs::path& path = error.path1();
  throw_file_error(path.empty() ? "." : path, "be used", error.code().value());
}

}  // namespace spillway
