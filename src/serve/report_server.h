// The HTTP front of `spillway watch`: serves the current report of a run from its output folder.
//
//   GET /, /report.html    the page; while there is none yet, one that reloads itself
//   GET /report.json       the report that a run writes at its end
//
// Answers have an ETag, so that repeated requests are cheap while nothing changes, and `Spillway-Run: held` while a
// process writes to the folder, `gone` if none has for a while. Requests by another name than the server's own
// (serve/host_check.h) are answered 403.
#pragma once

#include <filesystem>
#include <string>

#include "serve/guarded_server.h"

namespace spillway::serve {

class ReportServer : public GuardedServer {
 public:
  // Binds the port. Throws InputError if the port cannot be had, or if the folder is not the output folder of a run.
  ReportServer(std::filesystem::path folder, const GuardedOptions& options);

 private:
  void answer(const char* file, const char* type, const httplib::Request& request, httplib::Response& response) const;

  std::filesystem::path folder_;
};

}  // namespace spillway::serve
