#include "backend/cuda/nccl.h"

#include "base/error.h"

namespace spillway::cuda {
namespace {

Nccl open_nccl() {
  const Library library("NCCL", "libnccl.so.2",
                        "jobs on one GPU do without; for several, install libnccl2 or the PyPI package "
                        "nvidia-nccl-cu13, or name its folder in LD_LIBRARY_PATH");
  Nccl nccl;
  library.find("ncclGetVersion", nccl.get_version);
  library.find("ncclGetUniqueId", nccl.get_unique_id);
  library.find("ncclCommInitRankConfig", nccl.init_rank);
  library.find("ncclCommGetAsyncError", nccl.get_async_error);
  library.find("ncclCommFinalize", nccl.finalize);
  library.find("ncclCommDestroy", nccl.destroy);
  library.find("ncclCommAbort", nccl.abort);
  library.find("ncclGroupStart", nccl.group_start);
  library.find("ncclGroupEnd", nccl.group_end);
  library.find("ncclSend", nccl.send);
  library.find("ncclRecv", nccl.receive);
  library.find("ncclAllGather", nccl.all_gather);
  library.find("ncclGetErrorString", nccl.get_error);
  nccl.path = library.path();
  return nccl;
}

}  // namespace

const Nccl& find_nccl() {
  static const Nccl nccl = open_nccl();
  return nccl;
}

FoundLibrary find_nccl_library() {
  int number = 0;
  if (const int problem = find_nccl().get_version(&number); problem != Nccl::kSuccess)
    throw machine_error("NCCL", "expected its version, got error {}; install it anew", problem);
  return {version_text(static_cast<size_t>(number)), find_nccl().path};
}

}  // namespace spillway::cuda
