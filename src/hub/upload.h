// Sends files to the store of large files that belongs to a repository: git LFS's batch interface, with the hub's
// transfers "basic" (one PUT) and "multipart" (a PUT a part, then a list of what was sent).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "hub/server.h"

namespace spillway::hub {

// A file whose bytes have this SHA-256, which is the store's name for them.
struct LargeFile {
  std::filesystem::path path;
  std::string name;  // for messages
  int64_t size = 0;
  std::string sha256;
};

struct UploadOptions {
  int connections = 4;
  // Called on the caller's thread, some times a second, with the bytes that are at the store, of those files that it
  // did not have.
  std::function<void(int64_t done, int64_t total)> on_progress;
};

// Sends those files that the store does not have; a part that fails is sent again, and no other. The token goes to the
// hub alone. Throws the first of several failures: InputError for errors that the user can mend, MachineError if the
// network or the server fails in all attempts; Interrupted if a signal has come while the process is held
// (base/interrupt.h).
void upload_large_files(const Server& server, const Repository& repository, std::span<const LargeFile> files,
                        const UploadOptions& options);

// Throws the error for an answer to a request that was to write to the repository. `name` is a file's, or empty.
[[noreturn]] void throw_write_refusal(const Server& server, const Repository& repository, std::string_view name,
                                      const HttpResponse& response);

// Makes a POST of JSON to the hub, in as many attempts as the server's options say. Throws as throw_write_refusal()
// unless the answer's status is 2xx. Returns an empty text if it is stopped.
[[nodiscard]] std::string post_json(HttpClient& client, const Server& server, const Repository& repository,
                                    HttpRequest request);

}  // namespace spillway::hub
