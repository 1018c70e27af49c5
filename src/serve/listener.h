// Runs a server on its own thread, while the caller waits for what ends it.
#pragma once

#include <atomic>
#include <exception>
#include <thread>

#include "serve/guarded_server.h"

namespace spillway::serve {

class Listener {
 public:
  // Borrows the server. Throws std::system_error if the system refuses the thread.
  explicit Listener(GuardedServer& server);
  // Ends the server, and waits until its last connection is closed.
  ~Listener();
  Listener(Listener&&) = delete;

  // Returns true if the server accepts no more connections and has none.
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  // Ends the server, waits as the destructor does, and rethrows the server's exception.
  void end();

 private:
  GuardedServer& server_;
  std::exception_ptr failure_;
  std::atomic<bool> has_ended_ = false;
  std::thread thread_;
};

}  // namespace spillway::serve
