// Pieces as messages of MPI, each straight from rank to rank: over a network, or within a host.
#pragma once

#include <mpi.h>

#include <memory>
#include <mutex>

#include "mpi/transport.h"

namespace spillway {

// Calls MPI with `mutex` locked, one call at a time. All is borrowed. Calls throw MachineError for a rank that sends
// nothing within the timeout.
[[nodiscard]] std::unique_ptr<Transport> message_transport(MPI_Comm comm, const TransportFacts& facts,
                                                           std::timed_mutex& mutex);

}  // namespace spillway
