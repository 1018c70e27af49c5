#include "report/metrics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace spillway {
namespace {

// Bytes of the lines that stay: whole ones, up to the first of a later step.
int64_t kept_bytes(const std::string& path, int64_t resumed_step) {
  std::ifstream stream(path, std::ios::binary);
  int64_t kept = 0;
  std::string line;
  while (std::getline(stream, line) && !stream.eof()) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number()) break;
    if (json["step"].get<double>() > static_cast<double>(resumed_step)) break;
    kept += static_cast<int64_t>(line.size()) + 1;
  }
  return kept;
}

}  // namespace

void append_number(double value, fmt::memory_buffer& out) {
  if (!std::isfinite(value)) {
    fmt::format_to(std::back_inserter(out), "null");
    return;
  }
  const size_t start = out.size();
  fmt::format_to(std::back_inserter(out), "{}", value);
  // A whole number stays one that is read as a float.
  if (std::string_view(out.data() + start, out.size() - start).find_first_of(".e") == std::string_view::npos) {
    fmt::format_to(std::back_inserter(out), ".0");
  }
}

MetricsWriter::MetricsWriter(const std::filesystem::path& path, int64_t resumed_step) : path_(path.string()) {
  struct stat found {};
  if (::stat(path_.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    throw input_error(path_, "expected a regular file or none, got something else; remove it");
  }
  file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (file_.get() < 0) {
    throw machine_error(path_, "expected to write the file, got {}; check the folder", std::strerror(errno));
  }
  const int64_t kept = resumed_step > 0 ? kept_bytes(path_, resumed_step) : 0;
  if (::ftruncate(file_.get(), kept) != 0) {
    throw machine_error(path_, "expected to cut the file, got {}; check the folder", std::strerror(errno));
  }
  line_.reserve(4096);
}

void MetricsWriter::write(std::span<const MetricField> fields) {
  line_.clear();
  for (const MetricField& field : fields) {
    fmt::format_to(std::back_inserter(line_), "{}\"{}\": ", line_.size() == 0 ? "{" : ", ", field.name);
    if (const auto* integer = std::get_if<int64_t>(&field.value)) {
      fmt::format_to(std::back_inserter(line_), "{}", *integer);
    } else {
      append_number(std::get<double>(field.value), line_);
    }
  }
  fmt::format_to(std::back_inserter(line_), "}}\n");
  size_t done = 0;
  while (done < line_.size()) {
    const ssize_t written = ::write(file_.get(), line_.data() + done, line_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw machine_error(path_, "expected to write a line, got {}; make room", std::strerror(errno));
    }
    done += static_cast<size_t>(written);
  }
}

void MetricsWriter::sync() {
  if (::fsync(file_.get()) != 0) {
    throw machine_error(path_, "expected to bring the file to the disk, got {}; make room", std::strerror(errno));
  }
}

}  // namespace spillway
