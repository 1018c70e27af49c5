// Ranks as threads of one process, with faults that a test asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/peers.h"

namespace spillway {

struct LocalFault {
  enum class Kind : uint8_t {
    kLate,    // begins the call after `seconds`
    kSilent,  // never begins the call, while its thread lives; the call throws when another rank has given up
    kDead,    // ends: the call throws EndedRank, which is no std::exception
  };
  Kind kind = Kind::kLate;
  int rank = 0;
  int64_t call = 0;  // which of the rank's collectives, from 0
  double seconds = 0;
};

struct EndedRank {};

struct LocalOptions {
  double timeout_seconds = 60;
  std::vector<std::string> hosts;  // by rank; empty: all ranks are on one
  std::vector<LocalFault> faults;
};

// Returns the peers of ranks 0, 1, ..., each for a thread of its own. Destroyed, a rank has ended for the others.
// Collectives that differ between ranks in kind or size are an error on all of them (MachineError). abort() makes all
// ranks throw MachineError in their present or next call. REQUIRES: ranks >= 1.
[[nodiscard]] std::vector<std::unique_ptr<Peers>> local_peers(int ranks, LocalOptions options = {});

// Runs `body` as each of the ranks, on a thread each, and returns by rank the message of what it threw: empty where it
// returned, "ended" for EndedRank.
[[nodiscard]] std::vector<std::string> run_ranks(int ranks, const std::function<void(Peers&)>& body,
                                                 LocalOptions options = {});

}  // namespace spillway
