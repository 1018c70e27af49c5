// An HTTP server whose clients are harmless: cpp-httplib's, over connections with limits (serve/connection.h).
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
  // Serves until shut_down(), and until the last connection is closed. Once.
  void run();
  // Takes no request any more, lets those that are being answered end within `patience`, then cuts answers in chunks
  // and takes no connection. Any thread.
  void shut_down(std::chrono::milliseconds patience = std::chrono::milliseconds(0));

 protected:
  explicit GuardedServer(GuardedOptions options);
  // Takes the port, and the first thread. Throws InputError at --port where that cannot be had, at --host where no port
  // of it can, std::system_error where the system refuses the thread. Once, after the routes are set.
  void bind();
  [[nodiscard]] const GuardedOptions& options() const { return options_; }
  // That of the request which the calling thread answers.
  [[nodiscard]] static Connection& connection();
  // For an answer before the body was read: what is left of it would be taken for the next request.
  static void leave_unread(httplib::Response& response);

 private:
  [[noreturn]] void throw_unbound() const;
  bool process_and_close_socket(socket_t socket) override;
  // One request of `connection`, counted while it lasts; false where it cannot be read or the client is gone.
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
