// Pieces staged in memory that the ranks of one host share (MPI_Win_allocate_shared): a rank reads its peers' pieces
// where they wrote them. Nothing of it calls MPI between its begin and its end.
#pragma once

#include <mpi.h>

#include <memory>

#include "mpi/transport.h"

namespace spillway {

// Makes the shared windows; called by all ranks of `comm`, which are on one host. All is borrowed. Throws MachineError
// on all ranks where the host has too little shared memory. Calls throw MachineError for a rank that has ended, or
// takes no part within the timeout; where several ranks of a host notice, one throws, and the others wait a little to
// be ended.
[[nodiscard]] std::unique_ptr<Transport> window_transport(MPI_Comm comm, const TransportFacts& facts);

}  // namespace spillway
