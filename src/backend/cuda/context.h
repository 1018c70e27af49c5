// What kernels know of the GPU they run on: its number, its properties and cuBLASLt.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "backend/cuda/cublas_lt.h"

namespace spillway::cuda {

class Context {
 public:
  // REQUIRES: the device is current.
  explicit Context(int ordinal);

  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] const cudaDeviceProp& properties() const { return properties_; }

  [[nodiscard]] CublasLt& cublas() { return *cublas_; }

 private:
  int ordinal_;
  cudaDeviceProp properties_{};
  std::unique_ptr<CublasLt> cublas_;
};

}  // namespace spillway::cuda
