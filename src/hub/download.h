// Downloads files of a commit into the blobs of the cache, several at once and large ones in pieces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "hub/server.h"

namespace spillway::hub {

struct DownloadOptions {
  int connections = 8;
  // The size of a piece; a file of more than two is cut into pieces. Up to twice as many pieces as connections wait in
  // memory for an earlier one.
  int64_t piece_bytes = int64_t{8} << 20;
  // Called on the caller's thread, some times a second, with the bytes present, including those present before.
  std::function<void(int64_t done)> on_progress;
};

// Downloads missing files, each until it is whole and has the digest in its etag; returns the etag of each path, the
// name of its blob. Bytes that arrived before a failure are kept, and the next call continues from there. Throws the
// first of several failures: InputError or MachineError (hub/server.h); a file that arrives with a wrong digest twice
// is a MachineError. Throws Interrupted if a signal has come while the process is held (base/interrupt.h).
[[nodiscard]] std::map<std::string, std::string> download_files(const Server& server, const Repository& repository,
                                                                const std::string& commit,
                                                                std::span<const RemoteFile> files,
                                                                const std::filesystem::path& cache,
                                                                const DownloadOptions& options);

}  // namespace spillway::hub
