// The arguments of a kernel. The device contract of src/ops: a kernel reads its inputs, writes all of its outputs, uses
// the granted workspace, and does nothing else: no allocation, no synchronisation, no state.
#pragma once

#include <cstddef>
#include <span>

#include "graph/attributes.h"
#include "tensor/view.h"

namespace spillway {

class ThreadPool;
namespace cuda {
class Context;  // backend/cuda/context.h
}

struct KernelArgs {
  // Per-token tensors have as many rows as the stream holds, which may be fewer than planned. `data` is null if an
  // optional input is absent. An output may share memory with an input as its OpDef's in_place allows.
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  std::byte* workspace = nullptr;  // 64-byte aligned (256 on a GPU), of the size that OpDef::workspace_bytes returned
  const Attributes& attributes;
  ThreadPool* threads = nullptr;     // cpu
  void* stream = nullptr;            // cuda: a cudaStream_t
  cuda::Context* context = nullptr;  // cuda: the device's library handles and properties
};

}  // namespace spillway
