// The HTTP front of `spillway watch`: the report of a run, as it is in the run's output folder now.
//
//   GET /, /report.html    the page; while there is none yet, one that asks again by itself
//   GET /report.json       what the run leaves at its end
//
// Answers have an ETag, so that who asks again is told quickly that nothing has changed, and `Spillway-Run: held` while
// a process writes to the folder, `gone` where none has for a while. Who asks by another name than the server's own
// (serve/host_check.h) is answered 403.
#pragma once

#include <filesystem>
#include <string>

#include "serve/guarded_server.h"

namespace spillway::serve {

class ReportServer : public GuardedServer {
 public:
  // Takes the port. Throws InputError where that cannot be had, or where the folder is not the output folder of a run.
  ReportServer(std::filesystem::path folder, const GuardedOptions& options);

 private:
  void answer(const char* file, const char* type, const httplib::Request& request, httplib::Response& response) const;

  std::filesystem::path folder_;
};

}  // namespace spillway::serve
