#include "report/live_report.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "io/file_error.h"
#include "io/temporary_name.h"

namespace spillway {

void LiveReportPace::wrote(double begin, double end) {
  has_written_ = true;
  next_ = end + std::max(kMinSeconds, (end - begin) * (1 / kMaxShare - 1));
}

void replace_file(const std::filesystem::path& path, std::string_view content) {
  const TemporaryFile file = create_temporary_file(path);
  const auto fail = [&] {
    const int error = errno;
    ::unlink(file.path.c_str());
    throw_file_error(path, "be written", error);
  };
  while (!content.empty()) {
    const ssize_t written = ::write(file.fd.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    content.remove_prefix(static_cast<size_t>(written));
  }
  if (std::rename(file.path.c_str(), path.c_str()) != 0) fail();
}

}  // namespace spillway
