// The hub as a server: its answers about a repository and a file, and the meaning of its refusals for a user.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/http.h"
#include "hub/repository.h"

namespace spillway::hub {

struct Server {
  std::string endpoint = "https://huggingface.co";
  std::string token;  // empty: none
  // For failures that may pass: the network, 429, 5xx.
  int attempts = 6;
  double first_wait_seconds = 1;  // doubles with every attempt, unless the server says how long (Retry-After)
};

// Reads HF_ENDPOINT; HF_TOKEN, else the file HF_TOKEN_PATH, else token in the home folder of the libraries
// (hub/cache.h), where `hf auth login` leaves it. Throws InputError for an endpoint that is no http address.
[[nodiscard]] Server server_of_environment();

struct RemoteFile {
  std::string path;    // within the repository
  int64_t size = -1;   // negative: not known
  std::string digest;  // the expected etag: the SHA-256 of LFS, else the git blob's SHA-1; empty: not known
};

struct Listing {
  std::string commit;
  std::optional<bool> is_private;  // none: not said
  std::vector<RemoteFile> files;
};

// The answer about one file before its bytes.
struct FileHead {
  std::string etag;      // a name for its bytes, safe as a file's name
  int64_t size = -1;     // negative: not said
  std::string location;  // the address of the bytes, perhaps on another host
};

// Called while waiting and while bytes arrive; true ends the operation.
using IsStopped = std::function<bool()>;

// Returns the address of the hub's interface for a repository, https://huggingface.co/api/models/org/name.
[[nodiscard]] std::string api_url(const Server& server, const Repository& repository);

// Encodes a branch, whose slashes are part of one segment of an address.
[[nodiscard]] std::string url_segment(std::string_view text);

// Returns the address of the commit's file.
[[nodiscard]] std::string file_url(const Server& server, const Repository& repository, std::string_view commit,
                                   std::string_view path);

// Both throw InputError for errors that the user can mend (no such model, no access, no such revision), MachineError if
// the network or the server fails in all attempts. If they are stopped, their result is empty.
[[nodiscard]] Listing list_repository(HttpClient& client, const Server& server, const Repository& repository,
                                      const IsStopped& is_stopped);
[[nodiscard]] FileHead head_of_file(HttpClient& client, const Server& server, const Repository& repository,
                                    std::string_view commit, std::string_view path, const IsStopped& is_stopped);

// The same for a repository that may be absent, hidden from this token, or without such a revision.
struct FoundRepository {
  bool is_there = false;
  std::optional<Listing> listing;  // none: there is no such revision
};
[[nodiscard]] FoundRepository find_repository(HttpClient& client, const Server& server, const Repository& repository,
                                              const IsStopped& is_stopped);

// Makes the request until there is an answer that other attempts would not change, or they are used up. With
// `own_host_only`, a redirect to another origin is the answer.
[[nodiscard]] HttpResponse ask(HttpClient& client, const Server& server, const HttpRequest& request,
                               bool own_host_only = false);

// Returns true if another attempt may bring another answer.
[[nodiscard]] bool may_pass(const HttpResponse& response);

// Throws the error for an answer of the last attempt that is no success.
[[noreturn]] void throw_refusal(const Server& server, const Repository& repository, std::string_view path,
                                const HttpResponse& response);

// Counts and delays the attempts at one operation.
class Attempts {
 public:
  Attempts(const Server& server, const IsStopped& is_stopped) : server_(server), is_stopped_(is_stopped) {}

  // Waits for the time that suits this answer. Returns false if there is to be no other attempt.
  [[nodiscard]] bool wait(const HttpResponse& response);
  // Starts counting anew, since the last attempt brought some progress.
  void restart() { made_ = 0; }

 private:
  const Server& server_;
  const IsStopped& is_stopped_;
  int made_ = 0;
};

}  // namespace spillway::hub
