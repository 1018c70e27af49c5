// A server at work on a thread of its own, while the caller waits for what ends it.
#pragma once

#include <atomic>
#include <exception>
#include <thread>

#include "serve/guarded_server.h"

namespace spillway::serve {

class Listener {
 public:
  // The server is borrowed. Throws std::system_error where the system refuses the thread.
  explicit Listener(GuardedServer& server);
  // Ends the server, and waits until its last connection is closed.
  ~Listener();
  Listener(Listener&&) = delete;

  // The server takes no connections any more, and has none.
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  // Ends the server, waits as the destructor does, and throws what the server threw.
  void end();

 private:
  GuardedServer& server_;
  std::exception_ptr failure_;
  std::atomic<bool> has_ended_ = false;
  std::thread thread_;
};

}  // namespace spillway::serve
