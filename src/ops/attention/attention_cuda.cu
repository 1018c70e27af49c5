// See ops/attention/cuda/shared.h.
#include "backend/kernel.h"
#include "ops/attention/cuda/kernels.h"
#include "ops/attention/cuda/shared.h"
#include "ops/attention/operands.h"

namespace spillway::ops {
namespace {

cuda::LibraryAttention library_part(const KernelArgs& args, const AttentionArgs& attention, bool is_backward) {
  return cuda::library_attention(args.attributes, attention.dtype, attention.sequences, attention.sinks.data != nullptr,
                                 is_backward);
}

std::byte* library_workspace(const KernelArgs& args, const cuda::LibraryAttention& library) {
  return args.workspace + cuda::own_workspace(library).bytes;
}

}  // namespace

void attention_cuda(const KernelArgs& args) {
  const AttentionArgs forward = attention_args(args);
  const cuda::LibraryAttention library = library_part(args, forward, false);
  const cuda::LeftOut left_out = cuda::attend(library, forward, library_workspace(args, library), args);
  cuda::attention_forward(forward, left_out, args.workspace, args.stream);
}

void attention_grad_cuda(const KernelArgs& args) {
  AttentionGradArgs grad = attention_grad_args(args);
  const cuda::LibraryAttention library = library_part(args, grad.forward, true);
  const cuda::LeftOut left_out = cuda::attend_backward(library, grad, library_workspace(args, library), args);
  cuda::attention_backward(grad, left_out, args.workspace, args.stream);
}

}  // namespace spillway::ops
