#include "backend/cuda/cudnn.h"

#include <cstdlib>

#include "base/error.h"

namespace spillway::cuda {
namespace {

// The oldest version that reads ragged statistics and is without known errors in them.
constexpr size_t kOldestVersion = 91002;

// Opens the libraries that cuDNN and its frontend open by name alone. From PyPI they lie where the loader does not
// look, but it finds those that are open already. Throws MachineError if there is no CUDA runtime; only some engines
// need NVRTC.
void open_what_cudnn_needs() {
  const Library runtime("cuDNN", "libcudart.so.13",
                        "install the CUDA 13 toolkit or the PyPI package nvidia-cuda-runtime, which cuDNN needs");
  try {
    (void)Cudnn::find_compiler();
  } catch (const MachineError&) {  // `doctor` says so
  }
}

// The functions, as cudnn.h declares them.
struct CudnnFunctions {
  Library library{"cuDNN", "libcudnn.so.9",
                  "install NVIDIA's package cudnn9-cuda-13 or the PyPI package nvidia-cudnn-cu13"};
  size_t (*version)();
  int (*create)(cudnnContext**);
  int (*destroy)(cudnnContext*);
  const char* (*error_string)(int);

  CudnnFunctions() {
    open_what_cudnn_needs();
    // The frontend otherwise prefers CUDA 12's runtime, and prints a warning of its own where both are installed.
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", "libcudart.so.13", 0);
    // On Hopper a deterministic backward otherwise keeps all scores: bytes that grow with the square of the length.
    setenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT", "0", 1);
    library.find("cudnnGetVersion", version);
    library.find("cudnnCreate", create);
    library.find("cudnnDestroy", destroy);
    library.find("cudnnGetErrorString", error_string);
  }
};

const CudnnFunctions& cudnn_functions() {
  static const CudnnFunctions functions;
  if (const size_t version = functions.version(); version < kOldestVersion) {
    throw machine_error(
        "cuDNN", "expected version {} or later, got {}; install a newer one, or name its folder in LD_LIBRARY_PATH",
        version_text(kOldestVersion), version_text(version));
  }
  return functions;
}

}  // namespace

Cudnn::Cudnn() {
  const CudnnFunctions& cudnn = cudnn_functions();
  if (const int status = cudnn.create(&handle_); status != 0)
    throw machine_error("cuDNN", "expected a handle, got '{}'; see `spillway doctor`", cudnn.error_string(status));
}

Cudnn::~Cudnn() { cudnn_functions().destroy(handle_); }

void* Cudnn::open() { return cudnn_functions().library.handle(); }

FoundLibrary Cudnn::find() {
  const CudnnFunctions& cudnn = cudnn_functions();
  return {version_text(cudnn.version()), cudnn.library.path()};
}

FoundLibrary Cudnn::find_compiler() {
  const Library library("NVRTC", "libnvrtc.so.13",
                        "install the CUDA 13 toolkit or the PyPI package nvidia-cuda-nvrtc: cuDNN compiles with it");
  int (*version)(int*, int*) = nullptr;  // as nvrtc.h declares it
  library.find("nvrtcVersion", version);
  int major = 0, minor = 0;
  if (const int problem = version(&major, &minor); problem != 0)
    throw machine_error("NVRTC", "expected its version, got error {}; install it anew", problem);
  return {fmt::format("{}.{}", major, minor), library.path()};
}

}  // namespace spillway::cuda
