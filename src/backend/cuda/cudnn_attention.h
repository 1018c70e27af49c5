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

#include "backend/cuda/library_attention.h"

namespace spillway::cuda {

class CudnnAttention {
 public:
  // Opens the library and makes a handle on the current device, of compute capability `major`.`minor`. Throws
  // MachineError where either fails.
  CudnnAttention(int major, int minor);
  ~CudnnAttention();
  CudnnAttention(CudnnAttention&&) = delete;

  // "9.26.0". Opens the library without a GPU. Throws MachineError where it cannot.
  [[nodiscard]] static std::string find_version();
  // "13.0": NVRTC's, which cuDNN compiles kernels with. The same.
  [[nodiscard]] static std::string find_compiler_version();

  struct Engine {
    std::string name, problem;  // of the two, one is empty
    int64_t workspace_bytes = 0;
  };
  // What computes an attention on a GPU that need not be here: `properties` are cuDNN's own description of it, JSON.
  [[nodiscard]] static Engine find_engine(const LibraryAttention& attention, int major, int minor,
                                          std::string_view properties);

  // Whether there is an engine that is content with LibraryWorkspace. An attention that is met for the first time is
  // planned, which takes the host up to a second; says so once where there is none. Threads: any, of this and the rest.
  [[nodiscard]] bool can_compute(const LibraryAttention& attention);

  // REQUIRES: can_compute(), and describe_sequences() is in the stream.
  void forward(const LibraryAttention& attention, const AttentionArgs& args, std::byte* workspace, void* stream);
  void backward(const LibraryAttention& attention, const AttentionGradArgs& args, std::byte* workspace, void* stream);

 private:
  struct Handle;
  struct Plan;

  [[nodiscard]] const Plan& plan_for(const LibraryAttention& attention);
  void execute(const LibraryAttention& attention, std::unordered_map<int64_t, void*> operands, std::byte* workspace,
               void* stream);

  int compute_capability_;
  std::mutex mutex_;  // of what follows
  std::unique_ptr<Handle> handle_;
  std::map<LibraryAttention, std::unique_ptr<Plan>> plans_;
};

}  // namespace spillway::cuda
