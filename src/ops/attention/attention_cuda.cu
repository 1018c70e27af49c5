// See ops/attention/cuda/shared.h.
#include "backend/kernel.h"
#include "ops/attention/cuda/kernels.h"
#include "ops/attention/cuda/shared.h"
#include "ops/attention/operands.h"

namespace spillway::ops {
namespace {

cuda::AttentionArgs attention_args(const KernelArgs& args, const TensorView& o, const TensorView& lse) {
  auto result = attention_operands<cuda::AttentionArgs>(args);
  result.o = o.data;
  result.lse = lse.as<float>();
  return result;
}

cuda::Sequences sequences_of(const KernelArgs& args, size_t key_offsets) {
  cuda::Sequences sequences{.offsets = args.inputs[3].as<int32_t>(), .count = args.inputs[3].shape[0] - 1};
  if (args.inputs.size() > key_offsets) {
    sequences.key_offsets = args.inputs[key_offsets].as<int32_t>();
    sequences.key_tokens = args.inputs[1].shape[0];
  }
  return sequences;
}

cuda::LibraryAttention library_part(const KernelArgs& args, bool is_backward) {
  return cuda::library_attention(args.attributes, args.inputs[0].dtype, args.inputs[3].shape[0] - 1, is_backward);
}

std::byte* library_workspace(const KernelArgs& args, const cuda::LibraryAttention& library) {
  return args.workspace + cuda::own_workspace(library).bytes;
}

}  // namespace

void attention_cuda(const KernelArgs& args) {
  const cuda::AttentionArgs forward = attention_args(args, args.outputs[0], args.outputs[1]);
  const cuda::LibraryAttention library = library_part(args, false);
  cuda::Sequences sequences = sequences_of(args, kKeyOffsets);
  sequences.left_out = cuda::attend(library, forward, sequences, library_workspace(args, library), args);
  cuda::attention_forward(forward, sequences, args.workspace, args.stream);
}

void attention_grad_cuda(const KernelArgs& args) {
  cuda::AttentionGradArgs grad{.forward = attention_args(args, args.inputs[4], args.inputs[5]),
                               .d_o = args.inputs[6].data,
                               .dq = args.outputs[0].data,
                               .dk = args.outputs[1].data,
                               .dv = args.outputs[2].data};
  const cuda::LibraryAttention library = library_part(args, true);
  cuda::Sequences sequences = sequences_of(args, kKeyOffsetsOfGrad);
  sequences.left_out = cuda::attend_backward(library, grad, sequences, library_workspace(args, library), args);
  cuda::attention_backward(grad, sequences, args.workspace, args.stream);
}

}  // namespace spillway::ops
