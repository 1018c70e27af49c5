#include "backend/cuda/context.h"

#include "backend/cuda/check.h"
#include "base/error.h"
#include "base/log.h"

namespace spillway::cuda {

Context::Context(int ordinal) : ordinal_(ordinal) {
  check(cudaGetDeviceProperties(&properties_, ordinal), "to ask the GPU what it is");
  cublas_ = std::make_unique<CublasLt>();
  try {
    cudnn_ = std::make_unique<Cudnn>();
  } catch (const MachineError& error) {
    log_info("attention will be slow, without tensor cores: {}", error.what());
  }
}

}  // namespace spillway::cuda
