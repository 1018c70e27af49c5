// HTTP as far as downloads need it: GET and HEAD by libcurl, redirects taken one by one so that a token goes to the
// host it is for and to no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace spillway::hub {

// The scheme, host and port of an address, "https://huggingface.co:443"; empty where it is no http(s) address.
[[nodiscard]] std::string origin_of(std::string_view url);

// Where a redirect from `base` leads to. Location may be relative.
[[nodiscard]] std::string resolved_url(const std::string& base, const std::string& location);

// Letters, digits, `-._~/` as they are, anything else as %XX.
[[nodiscard]] std::string url_path(std::string_view text);

struct HttpRequest {
  std::string url;
  bool is_head = false;
  std::string token;  // sent as a bearer; empty: none
  // Bytes from `first` to `last`, inclusive; last < 0: to the end; first < 0: all.
  int64_t first = -1, last = -1;
  // Takes a body as it arrives, of answers with a status of 2xx only; false ends the transfer. Called on the thread of
  // the request. Without it the body is in the response, cut at kMaxBody.
  std::function<bool(int status, std::span<const std::byte>)> sink;
  // Asked several times a second; true ends the transfer.
  std::function<bool()> is_stopped;
};

struct HttpResponse {
  int status = 0;                              // 0: none arrived
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string url;       // what answered
  std::string error;     // what went wrong on the way, also after the headers: a connection that was cut
  bool refused = false;  // no connection came about at all
  bool by_sink = false;  // the sink or is_stopped ended it

  [[nodiscard]] std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
  // Whether it arrived whole.
  [[nodiscard]] bool is_whole() const { return error.empty() && !by_sink; }
};

// One connection's worth of libcurl, kept open between requests to a host. One thread.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;

  // The first answer, whatever its status.
  [[nodiscard]] HttpResponse request(const HttpRequest& request);

  // The same, through at most ten redirects. The token is sent only where the origin is that of `request.url`, and no
  // redirect leads from https to http. With `own_host_only`, a redirect to another origin is the answer.
  [[nodiscard]] HttpResponse follow(HttpRequest request, bool own_host_only = false);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::hub
