#include "report/live_report.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/clock.h"
#include "base/log.h"
#include "io/file_error.h"
#include "io/temporary_name.h"
#include "report/report_html.h"

namespace spillway {

void LiveReportPace::wrote(double begin, double end) {
  has_written_ = true;
  next_ = end + std::max(kMinSeconds, (end - begin) * (1 / kMaxShare - 1));
}

void LivePage::write(std::string_view state, const train::TrainingOutcome& so_far) const {
  replace_file(path_, report_html(make_(state, so_far)));
}

void LivePage::show(const train::TrainingOutcome& so_far) {
  const double begin = now_seconds();
  if (!pace_.is_due(begin)) return;
  try {
    write("running", so_far);
    pace_.wrote(begin, now_seconds());
  } catch (const std::runtime_error& error) {
    log_warning("{}; the report is written when the run ends", error.what());
    pace_.give_up();
  }
}

void LivePage::show_failure(train::TrainingOutcome so_far, std::string_view error) const {
  so_far.ended_early = error;
  try {
    write("failed", so_far);
  } catch (const std::runtime_error&) {  // as on a disk that is full
  }
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
