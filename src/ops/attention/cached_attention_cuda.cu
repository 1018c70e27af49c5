// A prompt goes through the tiles of ops/attention/cuda/kernels.h, a token that is decoded through the parts of
// ops/attention/cuda/decode.h.
#include "backend/kernel.h"
#include "ops/attention/cuda/decode.h"
#include "ops/attention/cuda/kernels.h"
#include "ops/attention/operands.h"

namespace spillway::ops {

void cached_attention_cuda(const KernelArgs& args) {
  cuda::attention_on_cache(cached_attention_args(args), args.stream);
}

void decode_attention_cuda(const KernelArgs& args) {
  cuda::attention_decode(cached_attention_args(args), args.workspace, args.stream);
}

}  // namespace spillway::ops
