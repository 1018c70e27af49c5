#include "serve/report_server.h"

#include <sys/stat.h>

#include <ctime>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "io/file.h"
#include "io/folder_lock.h"
#include "serve/host_check.h"

namespace spillway::serve {
namespace {

namespace fs = std::filesystem;

constexpr const char *kPage = "report.html", *kReportJson = "report.json", *kRun = "spillway_run.json";
constexpr int64_t kMaxBytes = int64_t{256} << 20;
// A run writes its page every few seconds, or after a step that took longer. Whether a folder is held cannot be known
// of a process in another container; then the page's age decides.
constexpr std::time_t kGoneSeconds = 60;

constexpr const char* kWaiting =
    "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"2\">"
    "<meta name=\"color-scheme\" content=\"light dark\"><title>Spillway report</title>"
    "<p style=\"font: 15px system-ui, sans-serif; margin: 3rem\">The run has not begun to train. This page asks again "
    "every two seconds.</p></html>\n";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

void check_is_run(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw input_error("OUTPUT_DIR", "expected the output folder of a run, got {}, which is no folder; name one",
                      quote(folder.string()));
  if (!is_there(folder / kPage) && !is_there(folder / kRun))
    throw input_error("OUTPUT_DIR",
                      "expected the output folder of a run, got {} without {} and {}; name the output_dir of a config "
                      "that was trained",
                      quote(folder.string()), kPage, kRun);
}

std::string tag_of(const struct stat& status) {
  return fmt::format("\"{:x}-{:x}-{:x}-{:x}\"", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

}  // namespace

ReportServer::ReportServer(fs::path folder, const GuardedOptions& options)
    : GuardedServer(options), folder_(std::move(folder)) {
  check_is_run(folder_);
  set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    const std::string host = request.get_header_value("Host");
    if (is_host_answered(host, this->options().host)) return HandlerResponse::Unhandled;
    leave_unread(response);
    response.status = 403;
    response.set_content(fmt::format("[Host] expected localhost, 127.0.0.1 or the address that `spillway watch --host` "
                                     "names, got {}; ask by one of them\n",
                                     quote(host)),
                         "text/plain; charset=utf-8");
    return HandlerResponse::Handled;
  });
  for (const char* path : {"/", "/report.html"})
    Get(path, [this](const httplib::Request& request, httplib::Response& response) {
      answer(kPage, "text/html; charset=utf-8", request, response);
    });
  Get("/report.json", [this](const httplib::Request& request, httplib::Response& response) {
    answer(kReportJson, "application/json", request, response);
  });
  set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (response.body.empty())
      response.set_content(fmt::format("[{}] expected / or /report.json, got {}; ask for one of them\n", request.method,
                                       quote(request.path)),
                           "text/plain; charset=utf-8");
  });
  bind();
}

void ReportServer::answer(const char* file, const char* type, const httplib::Request& request,
                          httplib::Response& response) const {
  const fs::path path = folder_ / file;
  struct stat status {};
  response.set_header("Cache-Control", "no-cache");
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    if (std::string_view(file) == kPage) {
      response.set_content(kWaiting, type);
    } else {
      response.status = 404;
      response.set_content(fmt::format("the run has written no {} yet\n", file), "text/plain; charset=utf-8");
    }
    return;
  }
  const bool is_gone = !is_folder_held(folder_) && std::time(nullptr) - status.st_mtim.tv_sec > kGoneSeconds;
  response.set_header("Spillway-Run", is_gone ? "gone" : "held");
  const std::string tag = tag_of(status);
  response.set_header("ETag", tag);
  if (request.get_header_value("If-None-Match") == tag) {
    response.status = 304;
    return;
  }
  try {
    response.set_content(read_file(path, kMaxBytes), type);
  } catch (const std::exception& error) {  // replaced between the two looks at it, or not to be read
    response.status = 503;
    response.set_content(fmt::format("{}\n", error.what()), "text/plain; charset=utf-8");
  }
}

}  // namespace spillway::serve
