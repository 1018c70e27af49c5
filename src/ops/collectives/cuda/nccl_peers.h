// A rank's peers on GPUs, by NCCL: folds and gathers of GPU memory on a stream of their own.
#pragma once

#include <memory>

#include "backend/cuda/nccl.h"
#include "dist/peers.h"

namespace spillway::ops {

struct NcclOptions {
  int gpu = 0;                    // of this rank, its number for CUDA
  double timeout_seconds = 1800;  // ddp_timeout
};

// Joins the ranks' GPUs; called by all ranks together. Messages and the end of the job are `host`'s, which is borrowed.
// A call puts its work into the stream; finish() waits for it, looks for errors of NCCL meanwhile, and gives up behind
// the timeout, when the communicator is aborted and MachineError names the rank that is missing, if the host's peers
// know it. Sums are folded in order of rank, so that their bits are those of the host's peers. Throws MachineError if
// NCCL cannot connect the GPUs.
[[nodiscard]] std::unique_ptr<Peers> nccl_peers(const cuda::Nccl& nccl, Peers& host, const NcclOptions& options);

}  // namespace spillway::ops
