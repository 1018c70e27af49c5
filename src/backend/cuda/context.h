// The GPU that kernels run on: its number, its properties and its libraries.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <typeindex>

#include "backend/cuda/cublas_lt.h"
#include "backend/cuda/cudnn.h"

namespace spillway::cuda {

class Context {
 public:
  // Throws MachineError if there is no cuBLASLt. REQUIRES: the device is current.
  explicit Context(int ordinal);

  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] const cudaDeviceProp& properties() const { return properties_; }

  [[nodiscard]] CublasLt& cublas() { return *cublas_; }
  // Returns null if cuDNN is missing, which was logged when the device was opened.
  [[nodiscard]] const Cudnn* cudnn() const { return cudnn_.get(); }

  // Returns what the kernels of an operation keep for this GPU between calls: a T made from this Context when first
  // asked for, which goes before the libraries do. Safe from any thread.
  template <typename T>
  [[nodiscard]] T& kept() {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<void>& found = kept_[typeid(T)];
    if (found == nullptr) found = std::make_shared<T>(*this);
    return *static_cast<T*>(found.get());
  }

 private:
  int ordinal_;
  cudaDeviceProp properties_{};
  std::unique_ptr<CublasLt> cublas_;
  std::unique_ptr<Cudnn> cudnn_;
  std::mutex mutex_;  // guards kept_
  std::map<std::type_index, std::shared_ptr<void>> kept_;
};

}  // namespace spillway::cuda
