// cuDNN 9: the library, and its handle on a GPU. What operations ask of it is described beside them
// (ops/attention/cuda/cudnn_attention.h).
#pragma once

#include <string>

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
  // Returns the version, "9.26.0". Opens the library and throws as open() does.
  [[nodiscard]] static std::string find_version();
  // Returns the version of NVRTC, "13.0", with which cuDNN compiles kernels. Throws MachineError if it is missing.
  [[nodiscard]] static std::string find_compiler_version();

  [[nodiscard]] cudnnContext* handle() const { return handle_; }

 private:
  cudnnContext* handle_ = nullptr;
};

}  // namespace spillway::cuda
