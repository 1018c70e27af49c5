// Attention by cuDNN 9: packed sequences, causal or not, keys of another stream, grouped heads, sliding windows,
// forward and backward, in bf16.
//
// https://docs.nvidia.com/deeplearning/cudnn/frontend/latest/operations/Attention.html
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "backend/cuda/context.h"
#include "ops/attention/cuda/library_attention.h"
#include "ops/attention/operands.h"

namespace spillway::cuda {

class CudnnAttention {
 public:
  // REQUIRES: the GPU's context has cuDNN.
  explicit CudnnAttention(const Context& context);
  ~CudnnAttention();
  CudnnAttention(CudnnAttention&&) = delete;

  struct Engine {
    std::string name, problem;  // of the two, one is empty
    int64_t workspace_bytes = 0;
  };
  // Returns the engine for an attention on a GPU that need not be present: `properties` are cuDNN's own JSON
  // description of it.
  [[nodiscard]] static Engine find_engine(const LibraryAttention& attention, int major, int minor,
                                          std::string_view properties);

  // Returns true if there is an engine for which LibraryWorkspace suffices. The first call for an attention plans it,
  // which takes the host up to a second, and logs once if there is none. This and the methods below are safe from any
  // thread.
  [[nodiscard]] bool can_compute(const LibraryAttention& attention);

  // REQUIRES: can_compute(), and describe_sequences() is in the stream.
  void forward(const LibraryAttention& attention, const ops::AttentionArgs& args, std::byte* workspace, void* stream);
  void backward(const LibraryAttention& attention, const ops::AttentionGradArgs& args, std::byte* workspace,
                void* stream);

 private:
  struct Plan;

  [[nodiscard]] const Plan& plan_for(const LibraryAttention& attention);
  void execute(const LibraryAttention& attention, std::unordered_map<int64_t, void*> operands, std::byte* workspace,
               void* stream);

  int compute_capability_;
  cudnnContext* handle_;
  std::mutex mutex_;  // guards the plans, and the handle's stream
  std::map<LibraryAttention, std::unique_ptr<Plan>> plans_;
};

}  // namespace spillway::cuda
