// cuBLASLt's matrix products, in row-major terms, by one algorithm for each shape.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/library.h"
#include "backend/cuda/product.h"
#include "backend/device.h"

namespace spillway::cuda {

class CublasLt {
 public:
  // Opens the library and makes a handle on the current device. Throws MachineError where either fails.
  CublasLt();
  ~CublasLt();
  CublasLt(CublasLt&&) = delete;

  // "13.0.2". Opens the library without a GPU. Throws MachineError where it cannot.
  [[nodiscard]] static std::string find_version();

  // Puts a product into the stream. A shape that is met for the first time asks the library for its algorithms, which
  // takes the host some 100 us; while choosing, the fastest is found by running each, several times, and waiting.
  // Throws MachineError where the library has none. Threads: any.
  void multiply(const Product& product, cudaStream_t stream);

  void choose(bool choosing) { choosing_ = choosing; }
  // The index of each shape's algorithm in the order of this version of the library, where it was chosen by measuring.
  // What was chosen with other versions stays, for the day they are back.
  [[nodiscard]] Device::Algorithms algorithms() const;
  void set_algorithms(const Device::Algorithms& algorithms);

 private:
  struct Functions;
  struct Plan;
  using PlanPointer = std::shared_ptr<const Plan>;
  using Candidates = std::vector<cublasLtMatmulHeuristicResult_t>;
  struct KeptPlan {
    PlanPointer plan;
    uint64_t last_use = 0;
  };
  using Key = std::array<int64_t, 11>;

  // What an algorithm depends on. Whether there are an addend and a bias is part of it; the factor is not.
  [[nodiscard]] static Key key_of(const Product& product);

  [[nodiscard]] PlanPointer plan_for(const Product& product, cudaStream_t stream);
  [[nodiscard]] PlanPointer make_plan(const Product& product, cudaStream_t stream);
  // The index of the fastest.
  [[nodiscard]] int32_t measure(const Plan& plan, const Candidates& candidates, const Product& product,
                                cudaStream_t stream) const;
  [[nodiscard]] cublasStatus_t start(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const Product& product,
                                     cudaStream_t stream) const;
  void check(cublasStatus_t status, std::string_view what) const;

  std::unique_ptr<Functions> functions_;
  cublasLtHandle_t handle_ = nullptr;
  std::atomic<bool> choosing_{false};
  mutable std::mutex mutex_;       // of what follows
  std::map<Key, KeptPlan> plans_;  // the most recently used
  uint64_t uses_ = 0;
  Device::Algorithms algorithms_;
};

}  // namespace spillway::cuda
