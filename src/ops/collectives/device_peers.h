// The GPUs of a job's ranks: which one each takes, and how they are joined.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dist/peers.h"

namespace spillway::ops {

// The place of a rank on its host.
struct HostPlace {
  int number = 0, ranks = 1;
};

// Returns the number of GPUs that this process sees (CUDA_VISIBLE_DEVICES says which); 0 in a build without CUDA.
[[nodiscard]] int visible_gpus();

// Returns the device of a rank, as backend/device.h names it, where the config says `device` and the process sees so
// many GPUs: of "auto" and "cuda" the GPU of the rank's number on its host, or the only one that a launcher lets it
// see. Throws InputError, key `device`, for more ranks than GPUs, or one GPU for several ranks.
[[nodiscard]] std::string device_of_rank(std::string_view device, const HostPlace& place, int gpus);

// Returns a text that no other GPU of the host has. Throws MachineError if there is no NCCL.
[[nodiscard]] std::string gpu_identity(int gpu);
// Throws InputError if two ranks of a host have the same GPU, given gpu_identity() by rank.
void check_gpus_differ(std::span<const std::string> identities, const Peers& peers);

// Joins the GPUs of all ranks, of which each calls this: the result's collectives take the memory of GPU `gpu`. Borrows
// `host`, which joins the ranks' processes. Throws MachineError if they cannot be joined within the timeout.
[[nodiscard]] std::unique_ptr<Peers> join_gpus(Peers& host, int gpu, double timeout_seconds);

}  // namespace spillway::ops
