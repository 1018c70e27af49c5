#include "ops/collectives/device_peers.h"

#include "backend/device.h"
#include "base/error.h"
#include "base/index.h"
#ifdef SPILLWAY_CUDA
#include <array>

#include "backend/cuda/check.h"
#include "backend/cuda/device.h"
#include "backend/cuda/nccl.h"
#include "ops/collectives/cuda/nccl_peers.h"
#endif

namespace spillway::ops {

std::string device_of_rank(std::string_view device, const HostPlace& place, int gpus) {
  if (place.ranks == 1 || device == "cpu" || (device == "auto" && gpus == 0)) return std::string(device);
  if (device != "auto" && device != "cuda")
    throw input_error("device",
                      "expected cuda beside {} ranks on a host, each of which takes the GPU of its number there, got "
                      "'{}'; write cuda",
                      place.ranks, device);
  if (gpus == 0) return std::string(device);  // opening it says why there is none
  if (gpus == 1) return "cuda:0";             // of which each rank may see another
  if (gpus < place.ranks)
    throw input_error("device", "expected a GPU for each of {} ranks on a host, got {} GPUs; start fewer ranks",
                      place.ranks, gpus);
  return fmt::format("cuda:{}", place.number);
}

void check_gpus_differ(std::span<const std::string> identities, const Peers& peers) {
  for (int rank = 1; rank < peers.size(); ++rank) {
    for (int other = 0; other < rank; ++other) {
      if (nth(identities, rank) != nth(identities, other) || peers.host(rank) != peers.host(other)) continue;
      throw input_error("device", "expected a GPU for each rank, got {} of {} for ranks {} and {}; start fewer ranks",
                        nth(identities, rank), peers.host(rank), other, rank);
    }
  }
}

#ifdef SPILLWAY_CUDA

int visible_gpus() { return cuda::find_gpus().gpus; }

std::string gpu_identity(int gpu) {
  (void)cuda::find_nccl();
  std::array<char, 32> text{};
  cuda::check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), gpu), "the GPU's place");
  return text.data();
}

std::unique_ptr<Peers> join_gpus(Peers& host, int gpu, double timeout_seconds) {
  return nccl_peers(cuda::find_nccl(), host, {.gpu = gpu, .timeout_seconds = timeout_seconds});
}

#else

int visible_gpus() { return 0; }

std::string gpu_identity(int gpu) { return fmt::format("{}", gpu); }

std::unique_ptr<Peers> join_gpus(Peers&, int, double) {
  throw input_error("device", "expected cpu, got a GPU, as this program was built without CUDA; see docs/cuda.md");
}

#endif

}  // namespace spillway::ops
