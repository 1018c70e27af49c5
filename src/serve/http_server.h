// The HTTP front of `spillway serve`: routes of OpenAI's interface over an Api. A server of this machine alone answers
// 403 to who asks by another name than its own (serve/host_check.h); one that others reach may have any name.
#pragma once

#include <httplib.h>

#include "serve/api.h"
#include "serve/guarded_server.h"

namespace spillway::serve {

using HttpOptions = GuardedOptions;

class HttpServer : public GuardedServer {
 public:
  // Takes the port. The Api is borrowed. Throws InputError where that cannot be had.
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
