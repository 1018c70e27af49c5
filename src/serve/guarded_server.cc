#include "serve/guarded_server.h"

#include <sys/socket.h>

#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace spillway::serve {
namespace {

constexpr int64_t kHeaderBytes = 64 << 10;
constexpr int kRequestsPerConnection = 1000;

// The connection that a thread serves.
thread_local Connection* current = nullptr;

}  // namespace

GuardedServer::GuardedServer(GuardedOptions options) : options_(std::move(options)) {
  // A body may come in chunks, each with its length.
  options_.limits.request_bytes = kHeaderBytes + 2 * options_.max_body_bytes;
  set_payload_max_length(static_cast<size_t>(options_.max_body_bytes));
  new_task_queue = [this] { return threads_.release(); };  // the library deletes it
  // Two servers on one port would share its requests by chance.
  set_socket_options([](socket_t socket) {
    const int on = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
}

void GuardedServer::bind() {
  if (options_.port == 0) {
    port_ = bind_to_any_port(options_.host);
  } else {
    port_ = bind_to_port(options_.host, options_.port) ? options_.port : -1;
  }
  if (port_ < 0) throw_unbound();
  threads_ = std::make_unique<ConnectionThreads>(options_.connections);
}

void GuardedServer::throw_unbound() const {
  // If no port can be had at all, the address is wrong.
  if (httplib::Server().bind_to_any_port(options_.host) < 0)
    throw input_error("--host",
                      "expected an address of this machine, got {}; write 127.0.0.1, or 0.0.0.0 for all that "
                      "it has",
                      quote(options_.host));
  throw input_error("--port",
                    "expected a port of {} that can be listened to, got {}; choose another, or end what uses it",
                    quote(options_.host), options_.port);
}

void GuardedServer::run() { (void)listen_after_bind(); }

void GuardedServer::shut_down(std::chrono::milliseconds patience) {
  stopping_ = true;
  {
    std::unique_lock lock(mutex_);
    answered_.wait_for(lock, patience, [&] { return answering_ == 0; });
  }
  stop();  // from here on the library asks for no further chunk, the last one included
}

Connection& GuardedServer::connection() {
  SPILLWAY_CHECK(current != nullptr, "no request on this thread");
  return *current;
}

void GuardedServer::leave_unread(httplib::Response& response) {
  response.set_header("Connection", "close");
  connection().refuse_more();
}

bool GuardedServer::answer(Connection& connection, bool is_last, bool& closed) {
  {
    const std::lock_guard lock(mutex_);
    ++answering_;
  }
  const bool is_answered = [&](auto& server) {
    if constexpr (requires { server.process_request(connection, is_last, closed, nullptr); }) {
      return server.process_request(connection, is_last, closed, nullptr);
    } else {  // cpp-httplib since 0.18 is told who is there; nothing here asks
      return server.process_request(connection, "", 0, "", 0, is_last, closed, nullptr);
    }
  }(*this);
  {
    const std::lock_guard lock(mutex_);
    --answering_;
  }
  answered_.notify_all();
  return is_answered;
}

bool GuardedServer::process_and_close_socket(socket_t socket) {
  Connection connection(socket, options_.limits);
  current = &connection;
  for (int left = kRequestsPerConnection; left > 0; --left) {
    if (!connection.await_request([&] { return stopping_.load(); })) break;
    bool closed = false;
    const bool is_last = left == 1 || stopping_;
    if (!answer(connection, is_last, closed) || closed || connection.is_last()) {
      connection.end_softly();
      break;
    }
  }
  current = nullptr;
  return true;
}

}  // namespace spillway::serve
