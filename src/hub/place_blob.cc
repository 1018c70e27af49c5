#include "hub/place_blob.h"

#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <system_error>
#include <thread>

#include "io/file.h"

namespace spillway::hub {

namespace fs = std::filesystem;

void place_blob(const fs::path& blob, const fs::path& file, bool may_move, Links links) {
  create_folders(file.parent_path());
  const fs::path target = blob.lexically_relative(file.parent_path());
  std::error_code error = std::make_error_code(std::errc::not_supported);
  if (links == Links::kSymbolic) fs::create_symlink(target, file, error);
  if (!error || fs::read_symlink(file, error) == target) return;
  const size_t thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  const fs::path temporary =
      file.parent_path() / fmt::format(".{}.{}-{}", file.filename().string(), ::getpid(), thread);
  fs::remove(temporary, error);
  error = std::make_error_code(std::errc::not_supported);
  if (links == Links::kSymbolic) fs::create_symlink(target, temporary, error);
  if (error && links != Links::kNone) fs::create_hard_link(blob, temporary, error);
  if (error && may_move) {
    fs::rename(blob, file);
    return;
  }
  if (error) fs::copy_file(blob, temporary);
  fs::rename(temporary, file);
  fs::remove(temporary, error);  // rename leaves it where both are names of one file
}

}  // namespace spillway::hub
