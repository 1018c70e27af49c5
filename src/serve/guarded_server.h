// An HTTP server that is safe from its clients: cpp-httplib's, over connections with limits (serve/connection.h).
#pragma once

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "serve/connection.h"
#include "serve/connection_threads.h"

namespace spillway::serve {

struct GuardedOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                   // 0: any that is free
  int64_t max_body_bytes = 8 << 20;  // more is answered 413
  int64_t connections = 64;          // that are served at once, each by a thread; others wait
  ConnectionLimits limits;           // but for request_bytes, which follows from max_body_bytes
};

class GuardedServer : protected httplib::Server {
 public:
  [[nodiscard]] int port() const { return port_; }
  // Serves until shut_down() is called and the last connection is closed. Call it once.
  void run();
  // Accepts no more requests, lets those in progress end within `patience`, then cuts chunked answers and accepts no
  // connections. Thread-safe.
  void shut_down(std::chrono::milliseconds patience = std::chrono::milliseconds(0));

 protected:
  explicit GuardedServer(GuardedOptions options);
  // Binds the port and starts the first thread. Throws InputError at --port if that port cannot be had, at --host if no
  // port of the host can; std::system_error if the system refuses the thread. Call it once, after the routes are set.
  void bind();
  [[nodiscard]] const GuardedOptions& options() const { return options_; }
  // Returns the connection of the request that the calling thread answers.
  [[nodiscard]] static Connection& connection();
  // Call it for an answer before the body was read: the rest of the body would be taken for the next request.
  static void leave_unread(httplib::Response& response);

 private:
  [[noreturn]] void throw_unbound() const;
  bool process_and_close_socket(socket_t socket) override;
  // Answers one request of `connection`, and counts it meanwhile. Returns false if it cannot be read or the client is
  // gone.
  bool answer(Connection& connection, bool is_last, bool& closed);

  GuardedOptions options_;
  std::unique_ptr<ConnectionThreads> threads_;  // until run() takes them
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;  // of what follows
  std::condition_variable answered_;
  int64_t answering_ = 0;  // requests
};

}  // namespace spillway::serve
