// The HTTP front of `spillway serve`: routes of OpenAI's interface over an Api.
#pragma once

#include <httplib.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "serve/api.h"
#include "serve/connection.h"

namespace spillway::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                   // 0: any that is free
  int64_t max_body_bytes = 8 << 20;  // more is answered 413
  int64_t connections = 64;          // that are served at once; others wait
  ConnectionLimits limits;           // but for request_bytes, which follows from max_body_bytes
};

class HttpServer : private httplib::Server {
 public:
  // Takes the port. The Api is borrowed. Throws InputError where that cannot be had.
  HttpServer(Api& api, const HttpOptions& options);

  [[nodiscard]] int port() const { return port_; }
  // Serves until shut_down(), and until the last connection is closed.
  void run();
  // Takes no connection any more. Any thread.
  void shut_down();

 private:
  bool process_and_close_socket(socket_t socket) override;
  void add_routes();
  void generate(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& reader,
                bool is_chat);
  void answer_whole(const Conversation& conversation, httplib::Response& response);
  void answer_in_events(Conversation conversation, httplib::Response& response);

  Api& api_;
  HttpOptions options_;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
};

}  // namespace spillway::serve
