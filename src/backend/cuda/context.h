// The GPU that kernels run on: its number, its properties and its libraries.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "backend/cuda/cublas_lt.h"
#include "backend/cuda/cudnn_attention.h"

namespace spillway::cuda {

class Context {
 public:
  // Throws MachineError if there is no cuBLASLt. REQUIRES: the device is current.
  explicit Context(int ordinal);

  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] const cudaDeviceProp& properties() const { return properties_; }

  [[nodiscard]] CublasLt& cublas() { return *cublas_; }
  // Returns null if cuDNN is missing, which was logged when the device was opened.
  [[nodiscard]] CudnnAttention* attention() { return attention_.get(); }

 private:
  int ordinal_;
  cudaDeviceProp properties_{};
  std::unique_ptr<CublasLt> cublas_;
  std::unique_ptr<CudnnAttention> attention_;
};

}  // namespace spillway::cuda
