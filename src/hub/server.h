// The hub as a server: what it says of a repository and of a file, and what its refusals mean to a user.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/http.h"
#include "hub/repository.h"

namespace spillway::hub {

struct Server {
  std::string endpoint = "https://huggingface.co";
  std::string token;  // empty: none
  // Of an answer that may be another one the next time: the network, 429, 5xx.
  int attempts = 6;
  double first_wait_seconds = 1;  // doubles with every attempt, unless the server says how long (Retry-After)
};

// HF_ENDPOINT; HF_TOKEN, else the file HF_TOKEN_PATH, else token in the home folder of the libraries (hub/cache.h),
// where `hf auth login` leaves it. Throws InputError for an endpoint that is no http address.
[[nodiscard]] Server server_of_environment();

struct RemoteFile {
  std::string path;    // within the repository
  int64_t size = -1;   // negative: not known
  std::string digest;  // what its etag will be: the SHA-256 of LFS, else the git blob's SHA-1; empty: not known
};

struct Listing {
  std::string commit;
  std::vector<RemoteFile> files;
};

// What is said of one file before its bytes.
struct FileHead {
  std::string etag;      // a name for its bytes, safe as a file's name
  int64_t size = -1;     // negative: not said
  std::string location;  // where the bytes are: perhaps on another host
};

// Asked while waiting and while bytes arrive; true ends it.
using IsStopped = std::function<bool()>;

// Where the file is, of the commit.
[[nodiscard]] std::string file_url(const Server& server, const Repository& repository, std::string_view commit,
                                   std::string_view path);

// All of these throw InputError for what the user can mend (no such model, no access, no such revision), MachineError
// where the network or the server fails for as long as it is tried. Where they are stopped, their result is empty.
[[nodiscard]] Listing list_repository(HttpClient& client, const Server& server, const Repository& repository,
                                      const IsStopped& is_stopped);
[[nodiscard]] FileHead head_of_file(HttpClient& client, const Server& server, const Repository& repository,
                                    std::string_view commit, std::string_view path, const IsStopped& is_stopped);

// Whether another attempt may bring another answer.
[[nodiscard]] bool may_pass(const HttpResponse& response);

// What an answer that is no success means, for an attempt that is the last.
[[noreturn]] void throw_refusal(const Server& server, const Repository& repository, std::string_view path,
                                const HttpResponse& response);

// Attempts at one thing.
class Attempts {
 public:
  Attempts(const Server& server, const IsStopped& is_stopped) : server_(server), is_stopped_(is_stopped) {}

  // Waits as long as it is right after this answer. False where there is to be no other attempt.
  [[nodiscard]] bool wait(const HttpResponse& response);
  // Something has come of the last one.
  void restart() { made_ = 0; }

 private:
  const Server& server_;
  const IsStopped& is_stopped_;
  int made_ = 0;
};

}  // namespace spillway::hub
