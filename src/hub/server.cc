#include "hub/server.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "base/error.h"
#include "base/json_field.h"
#include "base/log.h"
#include "base/text.h"
#include "hub/cache.h"
#include "io/file.h"

namespace spillway::hub {
namespace {

namespace fs = std::filesystem;

constexpr double kMaxWaitSeconds = 300;
constexpr double kSaidWaitSeconds = 5;  // a longer one is said

int64_t number_of(std::string_view text) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

std::string token_of_environment() {
  constexpr int64_t kMaxTokenBytes = 4096;
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (std::string token(trimmed(environment(name))); !token.empty()) return token;
  }
  const std::string own = environment("HF_TOKEN_PATH");
  const fs::path path = own.empty() ? home_folder() / "token" : fs::path(own);
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) ? std::string(trimmed(read_file(path, kMaxTokenBytes))) : "";
}

std::string repository_url(const Server& server, const Repository& repository, std::string_view before) {
  return fmt::format("{}/{}{}{}", server.endpoint, before,
                     repository.kind == RepositoryKind::kDataset ? "datasets/"
                     : before.empty()                            ? ""
                                                                 : "models/",
                     url_path(repository.id));
}

// Returns how long the server asks to wait; negative if it does not ask.
double asked_wait(const HttpResponse& response) {
  const std::string text = response.header("retry-after");
  if (text.empty()) return -1;
  if (const int64_t seconds = number_of(text); seconds >= 0) return static_cast<double>(seconds);
  const time_t until = curl_getdate(text.c_str(), nullptr);
  return until < 0 ? -1 : std::max(0.0, static_cast<double>(until - std::time(nullptr)));
}

// Returns "\"abc\"" or "W/\"abc\"" without its marks.
std::string plain_etag(std::string text) {
  if (text.starts_with("W/")) text.erase(0, 2);
  std::erase(text, '"');
  return text;
}

bool is_safe_name(std::string_view text) {
  constexpr size_t kMaxLetters = 128;
  return !text.empty() && text.size() <= kMaxLetters && text.front() != '.' &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; });
}

}  // namespace

Server server_of_environment() {
  Server server;
  if (const std::string own(trimmed(environment("HF_ENDPOINT"))); !own.empty()) server.endpoint = own;
  while (server.endpoint.ends_with('/')) server.endpoint.pop_back();
  if (origin_of(server.endpoint).empty())
    throw input_error("HF_ENDPOINT", "expected an address such as https://huggingface.co, got {}; correct it",
                      quote(server.endpoint));
  server.token = token_of_environment();
  if (std::any_of(server.token.begin(), server.token.end(), [](unsigned char c) { return c <= ' ' || c >= 0x7f; }))
    throw input_error("HF_TOKEN", "expected a token (hf_...), got other characters; log in again");
  return server;
}

std::string api_url(const Server& server, const Repository& repository) {
  return repository_url(server, repository, "api/");
}

std::string url_segment(std::string_view text) {
  std::string result = url_path(text);
  for (size_t at = result.find('/'); at != std::string::npos; at = result.find('/', at)) result.replace(at, 1, "%2F");
  return result;
}

std::string file_url(const Server& server, const Repository& repository, std::string_view commit,
                     std::string_view path) {
  return fmt::format("{}/resolve/{}/{}", repository_url(server, repository, ""), commit, url_path(path));
}

HttpResponse ask(HttpClient& client, const Server& server, const HttpRequest& request, bool own_host_only) {
  Attempts attempts(server, request.is_stopped);
  for (;;) {
    HttpResponse response = client.follow(request, own_host_only);
    if (!may_pass(response) || !attempts.wait(response)) return response;
  }
}

bool may_pass(const HttpResponse& response) {
  if (response.by_sink) return false;
  constexpr int kTimeout = 408, kTooMany = 429;
  return !response.error.empty() || response.status == kTimeout || response.status == kTooMany ||
         (response.status >= 500 && response.status != 501);
}

bool Attempts::wait(const HttpResponse& response) {
  constexpr int kUnreachableAttempts = 3;  // no network at all shows at once
  if (++made_ >= (response.refused ? std::min(kUnreachableAttempts, server_.attempts) : server_.attempts)) return false;
  const double asked = asked_wait(response);
  const double seconds =
      std::min(kMaxWaitSeconds, asked >= 0 ? asked : server_.first_wait_seconds * std::pow(2, made_ - 1));
  if (seconds >= kSaidWaitSeconds)
    log_info("{} answers {}; trying again in {:.0f} s", origin_of(response.url),
             response.error.empty() ? fmt::format("{}", response.status) : quote(response.error), seconds);
  constexpr auto kGlance = std::chrono::milliseconds(50);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < until) {
    if (is_stopped_ && is_stopped_()) return false;
    std::this_thread::sleep_for(
        std::min<std::chrono::duration<double>>(kGlance, until - std::chrono::steady_clock::now()));
  }
  return true;
}

void throw_refusal(const Server& server, const Repository& repository, std::string_view path,
                   const HttpResponse& response) {
  const std::string where = path.empty() ? shown_name(repository) : fmt::format("{}: {}", shown_name(repository), path);
  const std::string host = origin_of(response.url.empty() ? server.endpoint : response.url);
  const std::string code = response.header("x-error-code"), page = repository_url(server, repository, "");
  if (!response.error.empty())
    throw machine_error(where,
                        "expected {} to answer, got \"{}\"; see to the network and try again, what has arrived is kept",
                        host, response.error);
  const bool is_refused = response.status == 401 || response.status == 403;
  if (code == "GatedRepo")
    throw input_error(where, "expected access to it, got {}: it is gated; {}{}", response.status,
                      fmt::format("ask for access at {}", page),
                      server.token.empty() ? " and set HF_TOKEN" : ", with the account of HF_TOKEN");
  if (code == "RevisionNotFound")
    throw input_error(where, "expected a revision of {}, got none called {}; choose one of {}/tree/main", repository.id,
                      quote(repository.wanted_revision()), page);
  if (is_refused && !server.token.empty() && code != "RepoNotFound")
    throw input_error(where,
                      "expected access to it, got {}; see that HF_TOKEN (or `hf auth login`) is valid and may read it",
                      response.status);
  if (response.status == 404 && !path.empty())
    throw input_error(where, "expected a file of the {}, got 404; fetch it again", repository.noun());
  if (is_refused || response.status == 404)
    throw input_error(
        where, "expected a {} of {}, got none of that name ({}); check the name, or set HF_TOKEN where it is private",
        repository.noun(), origin_of(server.endpoint), response.status);
  throw machine_error(where, "expected {} to answer, got HTTP status {}; try again later, what has arrived is kept",
                      host, response.status);
}

namespace {

HttpResponse ask_for_listing(HttpClient& client, const Server& server, const Repository& repository,
                             const IsStopped& is_stopped) {
  const std::string url =
      fmt::format("{}/revision/{}?blobs=true", api_url(server, repository), url_segment(repository.wanted_revision()));
  return ask(client, server, {.url = url, .token = server.token, .is_stopped = is_stopped});
}

Listing read_listing(const Server& server, const Repository& repository, const HttpResponse& response) {
  if (response.by_sink) return {};
  if (response.status != 200 || !response.error.empty()) throw_refusal(server, repository, "", response);
  Listing listing;
  try {
    const JsonDocument document(response.body, response.url);
    listing.commit = document.root()["sha"].string();
    if (const JsonField is_private = document.root()["private"]; !is_private.is_null())
      listing.is_private = is_private.boolean();
    for (const JsonField& file : document.root()["siblings"].elements()) {
      RemoteFile one{.path = file["rfilename"].string(), .size = file["size"].integer_or(-1, -1, INT64_MAX)};
      const JsonField lfs = file["lfs"];
      one.digest = lfs.is_object() ? lfs["sha256"].string_or("") : file["blobId"].string_or("");
      if (lfs.is_object()) one.size = lfs["size"].integer_or(one.size, -1, INT64_MAX);
      listing.files.push_back(std::move(one));
    }
  } catch (const InputError& error) {  // not the user's doing
    throw MachineError(error.what());
  }
  if (!is_commit(listing.commit))
    throw machine_error(response.url, "expected a commit as sha, got {}; see that HF_ENDPOINT is a Hugging Face hub",
                        quote(listing.commit));
  return listing;
}

}  // namespace

Listing list_repository(HttpClient& client, const Server& server, const Repository& repository,
                        const IsStopped& is_stopped) {
  return read_listing(server, repository, ask_for_listing(client, server, repository, is_stopped));
}

FoundRepository find_repository(HttpClient& client, const Server& server, const Repository& repository,
                                const IsStopped& is_stopped) {
  const HttpResponse response = ask_for_listing(client, server, repository, is_stopped);
  const std::string code = response.header("x-error-code");
  if (response.is_whole() && response.status == 404)
    return code == "RevisionNotFound" ? FoundRepository{.is_there = true} : FoundRepository{};
  if (response.is_whole() && response.status == 401 && code == "RepoNotFound") return {};
  return {.is_there = true, .listing = read_listing(server, repository, response)};
}

FileHead head_of_file(HttpClient& client, const Server& server, const Repository& repository, std::string_view commit,
                      std::string_view path, const IsStopped& is_stopped) {
  const HttpRequest request{.url = file_url(server, repository, commit, path),
                            .is_head = true,
                            .token = server.token,
                            .is_stopped = is_stopped};
  const HttpResponse response = ask(client, server, request, true);
  if (response.by_sink) return {};
  const std::string linked = response.header("x-linked-etag"), location = response.header("location");
  const bool is_elsewhere = response.status >= 300 && response.status < 400 && !location.empty();
  if (!response.error.empty() || !(response.status == 200 || is_elsewhere))
    throw_refusal(server, repository, path, response);
  FileHead head{.etag = plain_etag(linked.empty() ? response.header("etag") : linked),
                .location = is_elsewhere ? resolved_url(response.url, location) : response.url};
  const std::string size = response.header("x-linked-size");
  head.size = number_of(size.empty() && !is_elsewhere ? response.header("content-length") : size);
  const std::string where = fmt::format("{}: {}", shown_name(repository), path);
  if (!is_safe_name(head.etag))
    throw machine_error(where, "expected an etag, got {}; see that HF_ENDPOINT is a Hugging Face hub",
                        quote(head.etag));
  if (const std::string own = response.header("x-repo-commit"); !own.empty() && own != commit)
    throw machine_error(where, "expected the file of commit {}, got that of {}; try again", commit, quote(own));
  return head;
}

}  // namespace spillway::hub
