// The HTTP front of `spillway serve`: routes of OpenAI's interface over an Api. A server that only this machine can
// reach answers 403 to requests by another name than its own (serve/host_check.h); one that others can reach may have
// any name.
#pragma once

#include <httplib.h>

#include "serve/api.h"
#include "serve/guarded_server.h"

namespace spillway::serve {

using HttpOptions = GuardedOptions;

class HttpServer : public GuardedServer {
 public:
  // Binds the port. Borrows the Api. Throws InputError if the port cannot be had.
  HttpServer(Api& api, const HttpOptions& options);

 private:
  void add_routes();
  void generate(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& reader,
                bool is_chat);
  void answer_whole(const Conversation& conversation, httplib::Response& response);
  void answer_in_events(Conversation conversation, httplib::Response& response);

  Api& api_;
};

}  // namespace spillway::serve
