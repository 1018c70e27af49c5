// Brings files of a commit into the blobs of the cache, several at once and large ones in pieces.
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
  // Of a file that is cut into pieces, which is one of more than two. Up to twice as many pieces as connections wait in
  // memory for one before them.
  int64_t piece_bytes = int64_t{8} << 20;
  // On the caller's thread, some times a second: bytes that are there, those that were there before among them.
  std::function<void(int64_t done)> on_progress;
};

// Downloads what is not there, each file until it is whole and has the digest that its etag says; gives back the etag
// of each path, the name of its blob. What arrived before a failure is kept and gone on from the next time. Of several
// failures the first is thrown: InputError or MachineError (hub/server.h); a file that arrives with a wrong digest
// twice is a MachineError. Throws Interrupted where a signal has come while somebody holds the process
// (base/interrupt.h).
[[nodiscard]] std::map<std::string, std::string> download_files(const Server& server, const Repository& repository,
                                                                const std::string& commit,
                                                                std::span<const RemoteFile> files,
                                                                const std::filesystem::path& cache,
                                                                const DownloadOptions& options);

}  // namespace spillway::hub
