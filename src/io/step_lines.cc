#include "io/step_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file_error.h"
#include "io/name_watch.h"

namespace spillway {
namespace {

// Returns the bytes of the lines that stay: whole ones, up to the first of a later step, or of that step and none that
// stays.
int64_t kept_bytes(const std::string& path, int64_t resumed_step, const StepLines::Stays& stays) {
  std::ifstream stream(path, std::ios::binary);
  int64_t kept = 0;
  std::string line;
  while (std::getline(stream, line) && !stream.eof()) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number()) break;
    const auto step = json["step"].get<double>(), last = static_cast<double>(resumed_step);
    if (step > last || (step == last && stays && !stays(json))) break;
    kept += static_cast<int64_t>(line.size()) + 1;
  }
  return kept;
}

}  // namespace

StepLines::StepLines(const std::filesystem::path& path, int64_t resumed_step, const Stays& stays)
    : path_(path.string()) {
  struct stat found {};
  if (::stat(path_.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    throw input_error(path_, "expected a regular file or none, got something else; remove it");
  }
  tell_name(path);
  file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (file_.get() < 0) {
    throw machine_error(path_, "expected to write the file, got {}; check the folder", std::strerror(errno));
  }
  const int64_t kept = resumed_step > 0 ? kept_bytes(path_, resumed_step, stays) : 0;
  if (::ftruncate(file_.get(), kept) != 0) {
    throw machine_error(path_, "expected to cut the file, got {}; check the folder", std::strerror(errno));
  }
}

void StepLines::write(std::string_view lines) {
  const off_t begin = ::lseek(file_.get(), 0, SEEK_END);
  while (!lines.empty()) {
    const ssize_t written = ::write(file_.get(), lines.data(), lines.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : EIO;
      // A part of them stays where even this fails.
      if (begin >= 0) static_cast<void>(::ftruncate(file_.get(), begin) == 0);
      throw_file_error(path_, "be written", error);
    }
    lines.remove_prefix(static_cast<size_t>(written));
  }
}

void StepLines::sync() {
  if (::fsync(file_.get()) != 0) {
    throw_file_error(path_, "be brought to the disk", errno);
  }
}

}  // namespace spillway
