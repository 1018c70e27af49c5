// The part of HTTP that the hub needs: GET and HEAD, and POST and PUT with their bodies, by libcurl. Redirects are
// followed one by one, so that a token goes only to the host it is for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace spillway::hub {

// Returns the scheme, host and port of an address, "https://huggingface.co:443"; empty if it is no http(s) address.
[[nodiscard]] std::string origin_of(std::string_view url);

// Returns the target of a redirect from `base`. Location may be relative.
[[nodiscard]] std::string resolved_url(const std::string& base, const std::string& location);

// Returns letters, digits and `-._~/` unchanged, and any other byte as %XX.
[[nodiscard]] std::string url_path(std::string_view text);

// Bytes of a file that are the body of a PUT. Neither is changed while a request has them.
struct HttpUpload {
  int64_t bytes = 0;
  // Fills `into` with the bytes from `at` on. Called on the thread of the request; what it throws, the request throws.
  std::function<void(int64_t at, std::span<std::byte> into)> read;
};

struct HttpRequest {
  std::string url;
  bool is_head = false;
  std::string token;  // sent as a bearer; empty: none
  // The bytes from `first` to `last`, inclusive; last < 0: to the end; first < 0: all.
  int64_t first = -1, last = -1;
  // Receives a body as it arrives, for answers with a status of 2xx only; false ends the transfer. Called on the thread
  // of the request. Without it the body is in the response, cut at kMaxBody.
  std::function<bool(int status, std::span<const std::byte>)> sink;
  // Called several times a second; true ends the transfer.
  std::function<bool()> is_stopped;
  // Make it a POST of this text, or a PUT of these bytes; at most one of them is there.
  std::optional<std::string> post{};
  std::optional<HttpUpload> put{};
  std::string content_type{}, accept{};  // of a POST; empty: not said
};

struct HttpResponse {
  int status = 0;                              // 0: none arrived
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string url;       // the address that answered
  std::string error;     // an error on the way, also after the headers: a connection that was cut
  bool refused = false;  // whether no connection was made at all
  bool by_sink = false;  // whether the sink or is_stopped ended it

  [[nodiscard]] std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
  // Returns true if it arrived whole.
  [[nodiscard]] bool is_whole() const { return error.empty() && !by_sink; }
};

// A connection of libcurl, kept open between requests to a host. For use by one thread.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;

  // Returns the first answer, whatever its status.
  [[nodiscard]] HttpResponse request(const HttpRequest& request);

  // Does the same through at most ten redirects. The token is sent only to the origin of `request.url`, and no redirect
  // leads from https to http. With `own_host_only`, a redirect to another origin is the answer. A body follows
  // redirects with the statuses 307 and 308 alone; any other is the answer.
  [[nodiscard]] HttpResponse follow(HttpRequest request, bool own_host_only = false);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::hub
