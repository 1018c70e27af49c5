#include "backend/cuda/check.h"

#include "base/error.h"

namespace spillway::cuda {
namespace {

std::string_view advice(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "lower memory.device, or end what else uses the GPU";
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
      return "see `spillway doctor`, or set device: cpu";
    case cudaErrorNoKernelImageForDevice:
      return "build with this GPU in SPILLWAY_CUDA_ARCHITECTURES";
    default:
      return "see `spillway doctor` and the system's log (dmesg)";
  }
}

}  // namespace

void check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return;
  throw machine_error("cuda", "expected {}, got '{}: {}'; {}", what, cudaGetErrorName(error), cudaGetErrorString(error),
                      advice(error));
}

}  // namespace spillway::cuda
