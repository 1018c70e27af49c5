// 28 bytes per sequence: nothing but the start of a kernel.
#include "backend/cuda/library_attention.h"

#include "backend/cuda/launch.cuh"

namespace spillway::cuda {
namespace {

struct Description {
  int sequences, longest;
  int64_t q_elems, kv_elems, heads;  // of a token
  int64_t *q_offsets, *kv_offsets, *lse_offsets;
  int32_t* lengths;
};

// A thread for each sequence, and one for their end.
constexpr int kThreads = 256;
__global__ void __launch_bounds__(kThreads) describe_kernel(const int32_t* offsets, Description description) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i > description.sequences) return;
  const int64_t begin = offsets[i];
  description.q_offsets[i] = begin * description.q_elems;
  description.kv_offsets[i] = begin * description.kv_elems;
  description.lse_offsets[i] = begin * description.heads;
  if (i == description.sequences) return;
  const int length = offsets[i + 1] - offsets[i];
  description.lengths[i] = length <= description.longest ? length : 0;
}

}  // namespace

void describe_sequences(const LibraryAttention& attention, const Sequences& sequences, std::byte* workspace,
                        void* stream) {
  const LibraryWorkspace layout(attention);
  const auto at = [&](int64_t offset) { return reinterpret_cast<int64_t*>(workspace + offset); };
  const LeftOut of_library = attention.left_out();
  launch(describe_kernel, {div_ceil(attention.sequences + 1, kThreads), kThreads}, stream, sequences.offsets,
         Description{.sequences = of_library.sequences,
                     .longest = of_library.longest,
                     .q_elems = attention.heads * attention.head_size,
                     .kv_elems = attention.kv_heads * attention.head_size,
                     .heads = attention.heads,
                     .q_offsets = at(layout.q_offsets),
                     .kv_offsets = at(layout.kv_offsets),
                     .lse_offsets = at(layout.lse_offsets),
                     .lengths = reinterpret_cast<int32_t*>(workspace + layout.lengths)});
}

}  // namespace spillway::cuda
