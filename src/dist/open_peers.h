// Joins the ranks of a job that a launcher started.
#pragma once

#include <memory>
#include <string>

#include "dist/launch.h"
#include "dist/peers.h"

namespace spillway {

struct PeerOptions {
  double timeout_seconds = 1800;  // ddp_timeout
  // Ranks exchange by memory that they share where all of them are on one host; else they send messages there, too.
  bool shares_memory = true;
};

// Returns the peers of this rank; null where it is alone. Takes no longer than the slowest rank does to come here. Once
// in a process, before it starts threads that make child processes. A fault of a mapped file is reported as before.
// The peers must be destroyed on the thread that calls this, when all ranks have come to their end; where an error is
// on its way they leave the end of the job to end_ranks(). Throws InputError if the build has no MPI, or another than
// the launcher's.
[[nodiscard]] std::unique_ptr<Peers> open_peers(const Launch& launch, const PeerOptions& options = {});

// Returns true once open_peers() has joined this rank to the others.
[[nodiscard]] bool has_joined_ranks();

// Throws InputError if this build has no MPI and cannot be one of several ranks.
void check_has_mpi();

// Returns the name and version of the MPI library that ranks would exchange by; empty if this build has no MPI. Opens
// the module, which no run of one rank does. Throws MachineError if the library is not there.
[[nodiscard]] std::string mpi_version();

// Ends the job on all ranks with this exit status, and this process with it, if peers were opened that did not end in
// order. Returns otherwise. To be called when an error has been said.
void end_ranks(int status);

}  // namespace spillway
