// NCCL, which connects the GPUs of a job: its functions, found in the library when they are first needed. The types are
// those of nccl.h, which the build does without; the C interface has been the same since version 2.14.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "backend/gpu_library.h"

namespace spillway::cuda {

struct NcclId {
  char bytes[128];
};
// As in 2.14, with the member that comes after it: later versions take what is missing as not set.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef, version = 21400;
  int blocking = 0;
  int cluster_size = INT_MIN;
};

struct Nccl {
  using Comm = void*;
  using Stream = void*;                                // a cudaStream_t
  static constexpr int kSuccess = 0, kInProgress = 7;  // results
  static constexpr int kUint8 = 1, kFloat32 = 7;       // types of data

  int (*get_version)(int* version) = nullptr;
  int (*get_unique_id)(NcclId* id) = nullptr;
  int (*init_rank)(Comm* comm, int ranks, NcclId id, int rank, NcclConfig* config) = nullptr;
  int (*get_async_error)(Comm comm, int* result) = nullptr;
  int (*finalize)(Comm comm) = nullptr;
  int (*destroy)(Comm comm) = nullptr;
  int (*abort)(Comm comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*send)(const void* from, size_t count, int type, int peer, Comm comm, Stream stream) = nullptr;
  int (*receive)(void* to, size_t count, int type, int peer, Comm comm, Stream stream) = nullptr;
  int (*all_gather)(const void* from, void* to, size_t count, int type, Comm comm, Stream stream) = nullptr;
  const char* (*get_error)(int result) = nullptr;
  std::string path;  // of the library
};

// Opens the library, once a process if that succeeds. Needs no GPU. Throws MachineError if the library is missing or
// too old.
[[nodiscard]] const Nccl& find_nccl();
// Its version is "2.27.3". Throws as find_nccl() does.
[[nodiscard]] FoundLibrary find_nccl_library();

}  // namespace spillway::cuda
