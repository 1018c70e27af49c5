#include "ops/attention/cuda/shared.h"

#include <cuda_runtime_api.h>

#include "backend/cuda/check.h"
#include "backend/cuda/context.h"
#include "ops/attention/cuda/cudnn_attention.h"

namespace spillway::cuda {
namespace {

// Returns null if our own kernels do it all.
CudnnAttention* library_for(const LibraryAttention& attention, const AttentionArgs& args, const KernelArgs& kernel) {
  if (attention.sequences == 0 || args.tokens == 0) return nullptr;
  if (kernel.context->cudnn() == nullptr) return nullptr;
  auto& library = kernel.context->kept<CudnnAttention>();
  return library.can_compute(attention) ? &library : nullptr;
}

}  // namespace

LeftOut attend(const LibraryAttention& attention, const AttentionArgs& args, std::byte* workspace,
               const KernelArgs& kernel) {
  CudnnAttention* const library = library_for(attention, args, kernel);
  if (library == nullptr) return {};
  describe_sequences(attention, args, workspace, kernel.stream);
  library->forward(attention, args, workspace, kernel.stream);
  return attention.left_out();
}

LeftOut attend_backward(const LibraryAttention& attention, AttentionGradArgs& args, std::byte* workspace,
                        const KernelArgs& kernel) {
  CudnnAttention* const library = library_for(attention, args.forward, kernel);
  if (library == nullptr) return {};
  describe_sequences(attention, args.forward, workspace, kernel.stream);
  if (args.dq == args.forward.o) {
    // Copies o, since nothing tells when the library has read o for the last time, nor that it writes no row of dq that
    // is ours.
    std::byte* const copy = workspace + LibraryWorkspace(attention).copy;
    const int64_t elems = args.forward.tokens * attention.heads * attention.head_size;
    check(cudaMemcpyAsync(copy, args.forward.o, static_cast<size_t>(elems) * sizeof(bf16), cudaMemcpyDeviceToDevice,
                          static_cast<cudaStream_t>(kernel.stream)),
          "to copy an output of attention");
    args.forward.o = copy;
  }
  library->backward(attention, args, workspace, kernel.stream);
  return attention.left_out();
}

}  // namespace spillway::cuda
