// cuDNN 9: the library, and its handle on a GPU. What operations ask of it is described beside them
// (ops/attention/cuda/cudnn_attention.h).
#pragma once

#include "backend/gpu_library.h"

struct cudnnContext;  // what a cudnnHandle_t of cudnn.h points to

namespace spillway::cuda {

class Cudnn {
 public:
  // Opens the library and makes a handle on the current device. Throws MachineError if either fails.
  Cudnn();
  ~Cudnn();
  Cudnn(Cudnn&&) = delete;

  // Opens the library, once a process if that succeeds, and returns the handle of dlopen. Needs no GPU. Throws
  // MachineError if the library is missing or too old.
  static void* open();
  // Opens the library and throws as open() does; its version is "9.26.0".
  [[nodiscard]] static FoundLibrary find();
  // Opens NVRTC, with which cuDNN compiles kernels; its version is "13.0". Throws MachineError if it is missing.
  [[nodiscard]] static FoundLibrary find_compiler();

  [[nodiscard]] cudnnContext* handle() const { return handle_; }

 private:
  cudnnContext* handle_ = nullptr;
};

}  // namespace spillway::cuda
