#include "cli/cmd_watch.h"

#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "serve/listener.h"
#include "serve/report_server.h"

namespace spillway {
namespace {

using namespace std::chrono_literals;

// A reader or two, and what a browser opens beside.
constexpr int64_t kConnections = 16;
constexpr int64_t kMaxBodyBytes = 4096;  // of requests that have none

// Serves until a signal comes. Returns the exit status.
int watch_until_told(serve::ReportServer& server) {
  serve::Listener listener(server);
  while (!interrupt_requested() && !listener.has_ended()) std::this_thread::sleep_for(50ms);
  const bool was_told = interrupt_requested();
  listener.end();
  if (!was_told) throw machine_error("network", "expected to listen, got an error; start `spillway watch` again");
  return kInterrupted;
}

}  // namespace

int cmd_watch(std::span<const std::string> args) {
  std::string folder, host = "127.0.0.1";
  int64_t port = 8090;
  CommandLine line("spillway watch", "Serves the report of a run to a browser, newer numbers as they come.");
  line.required("OUTPUT_DIR", folder, "the output_dir of a run that goes on, or that has ended");
  line.option("--host NAME", host, "the address to listen to");
  line.option("--port N", port, "and its port; 0 takes one that is free", 0, 65535);
  line.example("spillway watch ./model-out");
  line.example("spillway watch ./model-out --port 0");
  if (!line.parse(args)) return kDone;
  const FinishFirst finish;
  serve::ReportServer server(folder, {.host = host,
                                      .port = static_cast<int>(port),
                                      .max_body_bytes = kMaxBodyBytes,
                                      .connections = kConnections,
                                      .limits = {}});
  log_info("the report of {} is at http://{}:{}/. Ctrl-C ends this, not the run.", quote(folder), host, server.port());
  return watch_until_told(server);
}

}  // namespace spillway
