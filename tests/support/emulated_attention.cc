// Where a GPU's kernel asks cuDNN for attention, the emulation asks the CPU's kernels, for each sequence by itself,
// where the description made for cuDNN says that it is.
#include <array>
#include <cstring>
#include <vector>

#include "ops/attention/cpu/passes.h"
#include "ops/attention/cuda/shared.h"

namespace spillway::cuda {
namespace {

const void* moved(const void* base, int64_t elems) { return static_cast<const bf16*>(base) + elems; }
void* moved(void* base, int64_t elems) { return static_cast<bf16*>(base) + elems; }

// Calls compute(the sequence's arguments, its first element of q, of k, the workspace) for each that is the library's.
template <typename Compute>
LeftOut for_each_sequence(const LibraryAttention& attention, const AttentionArgs& args, std::byte* workspace,
                          const KernelArgs& kernel, const Compute& compute) {
  if (attention.sequences == 0 || args.tokens == 0) return {};
  describe_sequences(attention, args, workspace, nullptr);
  const LibraryWorkspace layout(attention);
  const auto* q_offsets = reinterpret_cast<const int64_t*>(workspace + layout.q_offsets);
  const auto* kv_offsets = reinterpret_cast<const int64_t*>(workspace + layout.kv_offsets);
  const auto* lse_offsets = reinterpret_cast<const int64_t*>(workspace + layout.lse_offsets);
  const auto* lengths = reinterpret_cast<const int32_t*>(workspace + layout.lengths);
  const auto* key_lengths = reinterpret_cast<const int32_t*>(workspace + layout.key_lengths);
  std::vector<std::byte> memory(
      static_cast<size_t>(cpu::attention_backward_workspace_bytes(
          attention.longest, attention.longest_keys, attention.heads, attention.head_size, kernel.threads->threads())) +
      64);
  std::byte* const scratch = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  for (int64_t i = 0; i < attention.sequences; ++i) {
    if (lengths[i] == 0) continue;
    const std::array<int32_t, 2> whole = {0, lengths[i]}, keys = {0, key_lengths[i]};
    const int64_t q_at = q_offsets[i], kv_at = kv_offsets[i];
    compute(ops::AttentionArgs{.tokens = lengths[i],
                               .heads = attention.heads,
                               .kv_heads = attention.kv_heads,
                               .head_size = attention.head_size,
                               .seq_offsets = whole.data(),
                               .sequences = 1,
                               .is_causal = attention.is_causal,
                               .key_offsets = attention.key_tokens > 0 ? keys.data() : nullptr,
                               .key_tokens = key_lengths[i],
                               .scores = {.scale = attention.scale},
                               .window = attention.window,
                               .dtype = DType::kBF16,
                               .q = moved(args.q, q_at),
                               .k = moved(args.k, kv_at),
                               .v = moved(args.v, kv_at),
                               .o = moved(args.o, q_at),
                               .lse = args.lse + lse_offsets[i]},
            q_at, kv_at, scratch);
  }
  return attention.left_out();
}

}  // namespace

LeftOut attend(const LibraryAttention& attention, const AttentionArgs& args, std::byte* workspace,
               const KernelArgs& kernel) {
  return for_each_sequence(attention, args, workspace, kernel,
                           [&](const ops::AttentionArgs& sequence, int64_t, int64_t, std::byte* scratch) {
                             cpu::attention_forward(sequence, scratch, *kernel.threads);
                           });
}

LeftOut attend_backward(const LibraryAttention& attention, AttentionGradArgs& args, std::byte* workspace,
                        const KernelArgs& kernel) {
  if (attention.sequences == 0 || args.forward.tokens == 0) return {};
  const size_t bytes = static_cast<size_t>(args.forward.tokens * attention.heads * attention.head_size) * sizeof(bf16);
  if (args.dq == args.forward.o) {
    args.forward.o = std::memcpy(workspace + LibraryWorkspace(attention).copy, args.forward.o, bytes);
  }
  std::memset(args.dq, 0xFF, bytes);  // NaN: cuDNN may write the rows of sequences that are not its own
  return for_each_sequence(attention, args.forward, workspace, kernel,
                           [&](const ops::AttentionArgs& sequence, int64_t q_at, int64_t kv_at, std::byte* scratch) {
                             cpu::attention_backward({.forward = sequence,
                                                      .d_o = moved(args.d_o, q_at),
                                                      .dq = moved(args.dq, q_at),
                                                      .dk = moved(args.dk, kv_at),
                                                      .dv = moved(args.dv, kv_at)},
                                                     scratch, *kernel.threads);
                           });
}

}  // namespace spillway::cuda
