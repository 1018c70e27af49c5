// A prompt goes through the tiles of ops/attention/cuda/kernels.h, a token that is decoded through the parts of
// ops/attention/cuda/decode.h.
#include "backend/kernel.h"
#include "ops/attention/cuda/decode.h"
#include "ops/attention/cuda/kernels.h"
#include "ops/attention/operands.h"

namespace spillway::ops {
namespace {

cuda::CachedKeys cached_keys(const KernelArgs& args) {
  return {args.inputs[3].as<int32_t>(), args.inputs[4].as<int32_t>()};
}

cuda::AttentionArgs cached_operands(const KernelArgs& args) {
  auto attention = attention_operands<cuda::AttentionArgs>(args);
  attention.o = args.outputs[0].data;
  return attention;
}

}  // namespace

void cached_attention_cuda(const KernelArgs& args) {
  cuda::attention_on_cache(cached_operands(args), cached_keys(args), args.stream);
}

void decode_attention_cuda(const KernelArgs& args) {
  cuda::attention_decode(cached_operands(args), cached_keys(args), args.workspace, args.stream);
}

}  // namespace spillway::ops
