#include "backend/cuda/context.h"

#include "backend/cuda/check.h"
#include "base/error.h"
#include "base/log.h"

namespace spillway::cuda {

Context::Context(int ordinal) : ordinal_(ordinal) {
  check(cudaGetDeviceProperties(&properties_, ordinal), "to ask the GPU what it is");
  cublas_ = std::make_unique<CublasLt>();
  try {
    attention_ = std::make_unique<CudnnAttention>(properties_.major, properties_.minor);
  } catch (const MachineError& error) {
    log_info("attention will be slow, without tensor cores: {}", error.what());
  }
}

}  // namespace spillway::cuda
