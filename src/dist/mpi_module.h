// The functions of the module that carries a rank's exchanges by MPI (src/mpi/). It is opened in a job of several ranks
// alone: no other run loads MPI, nor is MPI needed to build the program.
#pragma once

#include "dist/launch.h"
#include "dist/open_peers.h"
#include "dist/peers.h"

namespace spillway {

// spillway_open_mpi: initialises MPI and returns this rank's peers, which the caller deletes. Once in a process. Throws
// InputError if MPI counts other ranks than the launcher, MachineError if it fails.
using OpenMpi = Peers*(const Launch& launch, const PeerOptions& options);
// spillway_mpi_version: the library's name and version. At any time, whether MPI is initialised or not.
using MpiVersion = const char*();
// spillway_end_mpi: ends the job on all ranks with this status, unless its peers ended in order. It returns only then.
using EndMpi = void(int status);

}  // namespace spillway
