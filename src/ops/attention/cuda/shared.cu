// Describing moves 28 bytes per sequence: its time is that of starting a kernel.
#include "ops/attention/cuda/shared.h"

#include "backend/cuda/launch.cuh"

namespace spillway::cuda {
namespace {

struct Description {
  int sequences, longest, longest_keys;
  int64_t q_elems, kv_elems, heads;  // of a token
  int64_t *q_offsets, *kv_offsets, *lse_offsets;
  int32_t *lengths, *key_lengths;  // one array where keys are of the same tokens
};

// Uses a thread for each sequence, and one for their end.
constexpr int kThreads = 256;
__global__ void __launch_bounds__(kThreads)
    describe_kernel(const int32_t* offsets, const int32_t* key_offsets, Description description) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i > description.sequences) return;
  const int64_t begin = offsets[i], key_begin = key_offsets[i];
  description.q_offsets[i] = begin * description.q_elems;
  description.kv_offsets[i] = key_begin * description.kv_elems;
  description.lse_offsets[i] = begin * description.heads;
  if (i == description.sequences) return;
  const int length = offsets[i + 1] - offsets[i], keys = key_offsets[i + 1] - key_offsets[i];
  const bool is_its_own = length > 0 && keys > 0 && length <= description.longest && keys <= description.longest_keys;
  description.lengths[i] = is_its_own ? length : 0;
  description.key_lengths[i] = is_its_own ? keys : 0;
}

}  // namespace

void describe_sequences(const LibraryAttention& attention, const AttentionArgs& args, std::byte* workspace,
                        void* stream) {
  const LibraryWorkspace layout(attention);
  const auto at = [&](int64_t offset) { return reinterpret_cast<int64_t*>(workspace + offset); };
  const LeftOut of_library = attention.left_out();
  launch(describe_kernel, {div_ceil(attention.sequences + 1, kThreads), kThreads}, stream, args.seq_offsets,
         args.offsets_of_keys(),
         Description{.sequences = of_library.sequences,
                     .longest = of_library.longest,
                     .longest_keys = of_library.longest_keys,
                     .q_elems = attention.heads * attention.head_size,
                     .kv_elems = attention.kv_heads * attention.head_size,
                     .heads = attention.heads,
                     .q_offsets = at(layout.q_offsets),
                     .kv_offsets = at(layout.kv_offsets),
                     .lse_offsets = at(layout.lse_offsets),
                     .lengths = reinterpret_cast<int32_t*>(workspace + layout.lengths),
                     .key_lengths = reinterpret_cast<int32_t*>(workspace + layout.key_lengths)});
}

}  // namespace spillway::cuda
