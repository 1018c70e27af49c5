// Matrix products by cuBLASLt, in row-major terms, with one algorithm for each shape.
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

#include "backend/cuda/product.h"
#include "backend/device.h"
#include "backend/gpu_library.h"

namespace spillway::cuda {

class CublasLt {
 public:
  // Opens the library and makes a handle on the current device. Throws MachineError if either fails.
  CublasLt();
  ~CublasLt();
  CublasLt(CublasLt&&) = delete;

  // Opens the library without a GPU; its version is "13.0.2". Throws MachineError if it cannot.
  [[nodiscard]] static FoundLibrary find();

  // Puts a product into the stream. The first product of a shape asks the library for its algorithms, which takes the
  // host some 100 us; while choosing, it finds the fastest by running each, several times, and waiting. Throws
  // MachineError if the library has none. Safe from any thread.
  void multiply(const Product& product, cudaStream_t stream);

  void choose(bool choosing) { choosing_ = choosing; }
  // Returns the index of each shape's algorithm in the order of this version of the library, if it was chosen by
  // measuring. Choices made with other versions are kept for when these return.
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

  // Returns all that an algorithm depends on. This includes the presence of an addend and of a bias, not the factor.
  [[nodiscard]] static Key key_of(const Product& product);

  [[nodiscard]] PlanPointer plan_for(const Product& product, cudaStream_t stream);
  [[nodiscard]] PlanPointer make_plan(const Product& product, cudaStream_t stream);
  // Returns the index of the fastest.
  [[nodiscard]] int32_t measure(const Plan& plan, const Candidates& candidates, const Product& product,
                                cudaStream_t stream) const;
  [[nodiscard]] cublasStatus_t start(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const Product& product,
                                     cudaStream_t stream) const;
  void check(cublasStatus_t status, std::string_view what) const;

  std::unique_ptr<Functions> functions_;
  cublasLtHandle_t handle_ = nullptr;
  std::atomic<bool> choosing_{false};
  mutable std::mutex mutex_;       // guards the members below
  std::map<Key, KeptPlan> plans_;  // the most recently used
  uint64_t uses_ = 0;
  Device::Algorithms algorithms_;
};

}  // namespace spillway::cuda
