#include "backend/cuda/context.h"

#include "backend/cuda/check.h"

namespace spillway::cuda {

Context::Context(int ordinal) : ordinal_(ordinal) {
  check(cudaGetDeviceProperties(&properties_, ordinal), "to ask the GPU what it is");
  cublas_ = std::make_unique<CublasLt>();
}

}  // namespace spillway::cuda
