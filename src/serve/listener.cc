#include "serve/listener.h"

#include <utility>

namespace spillway::serve {

Listener::Listener(GuardedServer& server)
    : server_(server), thread_([this] {
        try {
          server_.run();
        } catch (...) {
          failure_ = std::current_exception();
        }
        has_ended_ = true;
      }) {}

Listener::~Listener() {
  server_.shut_down();
  if (thread_.joinable()) thread_.join();
}

void Listener::end() {
  server_.shut_down();
  thread_.join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace spillway::serve
