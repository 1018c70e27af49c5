#include "backend/cuda/nccl.h"

#include "backend/cuda/library.h"
#include "base/error.h"

namespace spillway::cuda {

std::string find_nccl_version() {
  const Library library(
      "NCCL", "libnccl.so.2",
      "jobs on one GPU do without; for several, which is to come, install libnccl2 or the PyPI package "
      "nvidia-nccl-cu13, and name its folder in LD_LIBRARY_PATH");
  int (*version)(int*) = nullptr;  // as nccl.h declares it, which the build does without
  library.find("ncclGetVersion", version);
  int number = 0;
  if (const int problem = version(&number); problem != 0)
    throw machine_error("NCCL", "expected its version, got error {}; install it anew", problem);
  return version_text(static_cast<size_t>(number));
}

}  // namespace spillway::cuda
