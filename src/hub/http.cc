#include "hub/http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"

namespace spillway::hub {
namespace {

constexpr size_t kMaxBody = size_t{64} * kMiB;
constexpr int kMaxRedirects = 10;
// The limits of a connection: one that brings fewer bytes a second for so long counts as cut.
constexpr long kConnectSeconds = 20, kStalledSeconds = 60, kStalledBytes = 1;
constexpr long kStalledPostSeconds = 300;  // of a POST, whose answer may be long in coming: a commit of many files

void start_library() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
      throw machine_error("libcurl", "expected it to start, got an error; see to the machine's memory");
  });
}

struct UrlFree {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, UrlFree>;

std::string part_of(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  std::string result(text);
  curl_free(text);
  return result;
}

// The state that the callbacks of a transfer share.
struct CurlTransfer {
  const HttpRequest& request;
  HttpResponse response;
  int64_t sent = 0;                 // bytes of the upload
  std::exception_ptr failure = {};  // of reading them
};

size_t take_header(char* data, size_t size, size_t count, void* context) {
  HttpResponse& response = static_cast<CurlTransfer*>(context)->response;
  const std::string_view line(data, size * count);
  const size_t colon = line.find(':');
  if (line.starts_with("HTTP/")) {
    response.headers.clear();  // those of "100 Continue" and of a proxy
  } else if (colon != std::string_view::npos) {
    response.headers[lower_case(trimmed(line.substr(0, colon)))] = trimmed(line.substr(colon + 1));
  }
  return size * count;
}

size_t take_body(char* data, size_t size, size_t count, void* context) {
  CurlTransfer& transfer = *static_cast<CurlTransfer*>(context);
  const HttpRequest& request = transfer.request;
  HttpResponse& response = transfer.response;
  const std::span<const char> bytes(data, size * count);
  if (request.sink && response.status >= 200 && response.status < 300) {
    if (request.sink(response.status, std::as_bytes(bytes))) return bytes.size();
    response.by_sink = true;
    return 0;
  }
  response.body.append(data, std::min(bytes.size(), kMaxBody - std::min(kMaxBody, response.body.size())));
  return bytes.size();
}

int take_progress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  CurlTransfer& transfer = *static_cast<CurlTransfer*>(context);
  if (!transfer.request.is_stopped || !transfer.request.is_stopped()) return 0;
  transfer.response.by_sink = true;
  return 1;
}

size_t give_body(char* into, size_t size, size_t count, void* context) {
  CurlTransfer& transfer = *static_cast<CurlTransfer*>(context);
  const HttpUpload& upload = *transfer.request.put;
  const int64_t bytes = std::min(static_cast<int64_t>(size * count), upload.bytes - transfer.sent);
  try {
    upload.read(transfer.sent, std::as_writable_bytes(first_of(std::span(into, size * count), bytes)));
  } catch (...) {
    transfer.failure = std::current_exception();
    return CURL_READFUNC_ABORT;
  }
  transfer.sent += bytes;
  return static_cast<size_t>(bytes);
}

// Goes back, where a connection that was kept open turns out to be closed.
int seek_body(void* context, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<CurlTransfer*>(context)->sent = offset;
  return CURL_SEEKFUNC_OK;
}

// Says what is sent. `request` must live until the transfer is over.
void set_body(CURL* curl, CurlTransfer& transfer, curl_slist*& headers) {
  const HttpRequest& request = transfer.request;
  if (!request.post && !request.put) return;
  headers = curl_slist_append(headers, "Expect:");  // no "100 Continue" is waited for
  if (request.put) {
    headers = curl_slist_append(headers, "Content-Type:");
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.put->bytes));
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, &give_body);
    curl_easy_setopt(curl, CURLOPT_READDATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, &seek_body);
    curl_easy_setopt(curl, CURLOPT_SEEKDATA, &transfer);
    return;
  }
  headers = curl_slist_append(headers, fmt::format("Content-Type: {}", request.content_type).c_str());
  if (!request.accept.empty()) headers = curl_slist_append(headers, fmt::format("Accept: {}", request.accept).c_str());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.post->size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.post->data());
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStalledPostSeconds);
}

}  // namespace

std::string origin_of(std::string_view url) {
  const Url parts(curl_url());
  if (curl_url_set(parts.get(), CURLUPART_URL, std::string(url).c_str(), 0) != CURLUE_OK) return {};
  const std::string scheme = lower_case(part_of(parts.get(), CURLUPART_SCHEME));
  if (scheme != "http" && scheme != "https") return {};
  return fmt::format("{}://{}:{}", scheme, lower_case(part_of(parts.get(), CURLUPART_HOST)),
                     part_of(parts.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

std::string resolved_url(const std::string& base, const std::string& location) {
  const Url parts(curl_url());
  if (curl_url_set(parts.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK) return {};
  if (curl_url_set(parts.get(), CURLUPART_URL, location.c_str(), CURLU_URLENCODE) != CURLUE_OK) return {};
  return part_of(parts.get(), CURLUPART_URL);
}

std::string url_path(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("-._~/").find(c) != std::string_view::npos;
    result += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

struct HttpClient::Impl {
  CURL* curl = nullptr;
  char error[CURL_ERROR_SIZE] = {};
};

HttpClient::HttpClient() : impl_(std::make_unique<Impl>()) {
  start_library();
  impl_->curl = curl_easy_init();
  if (impl_->curl == nullptr) throw machine_error("libcurl", "expected a connection, got none; free some memory");
}

HttpClient::~HttpClient() {
  if (impl_) curl_easy_cleanup(impl_->curl);
}

HttpClient::HttpClient(HttpClient&&) noexcept = default;

HttpResponse HttpClient::request(const HttpRequest& request) {
  CURL* const curl = impl_->curl;
  CurlTransfer transfer{.request = request, .response = {}};
  HttpResponse& response = transfer.response;
  response.url = request.url;
  curl_easy_reset(curl);  // connections stay
  impl_->error[0] = '\0';
  curl_slist* headers = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (!request.token.empty())
    headers = curl_slist_append(headers, fmt::format("Authorization: Bearer {}", request.token).c_str());
  const std::string range =
      request.last < 0 ? fmt::format("{}-", request.first) : fmt::format("{}-{}", request.first, request.last);
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "spillway");
  for (const char* name : {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* const authorities = std::getenv(name);  // as Python's libraries have it
    if (authorities == nullptr || *authorities == '\0') continue;
    curl_easy_setopt(curl, CURLOPT_CAINFO, authorities);
    break;
  }
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_NOBODY, request.is_head ? 1L : 0L);
  if (request.first >= 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, impl_->error);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kStalledBytes);
  set_body(curl, transfer, headers);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &take_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &take_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  // The status is known before the first byte of the body.
  struct Body {
    CURL* curl;
    CurlTransfer* transfer;
  } body{curl, &transfer};
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
  curl_easy_setopt(
      curl, CURLOPT_WRITEFUNCTION, +[](char* data, size_t size, size_t count, void* context) {
        auto* const into = static_cast<Body*>(context);
        long status = 0;
        curl_easy_getinfo(into->curl, CURLINFO_RESPONSE_CODE, &status);
        into->transfer->response.status = static_cast<int>(status);
        return take_body(data, size, count, into->transfer);
      });
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  if (transfer.failure) std::rethrow_exception(transfer.failure);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  response.status = static_cast<int>(status);
  if (code != CURLE_OK && !response.by_sink) {
    response.error = impl_->error[0] != '\0' ? impl_->error : curl_easy_strerror(code);
    response.refused = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
                       code == CURLE_COULDNT_CONNECT || code == CURLE_URL_MALFORMAT ||
                       code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_UNSUPPORTED_PROTOCOL;
  }
  return std::move(response);
}

HttpResponse HttpClient::follow(HttpRequest request, bool own_host_only) {
  const std::string origin = origin_of(request.url), token = request.token;
  for (int i = 0;; ++i) {
    HttpResponse response = this->request(request);
    const std::string location = response.header("location");
    if (response.status < 300 || response.status >= 400 || location.empty() || !response.error.empty()) return response;
    constexpr int kTemporary = 307, kPermanent = 308;
    const bool has_body = request.post || request.put;
    if (has_body && response.status != kTemporary && response.status != kPermanent) return response;
    const std::string next = resolved_url(request.url, location), next_origin = origin_of(next);
    if (own_host_only && next_origin != origin) return response;
    if (i == kMaxRedirects || next_origin.empty() || (request.url.starts_with("https:") && next.starts_with("http:"))) {
      response.error = i == kMaxRedirects ? "too many redirects" : "a redirect to " + location;
      return response;
    }
    request.url = next;
    request.token = next_origin == origin ? token : "";
  }
}

}  // namespace spillway::hub
