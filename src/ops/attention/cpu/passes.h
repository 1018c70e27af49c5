// Attention over a flat stream of sequences, causal or not, of keys of the same tokens or of another stream, forward
// and backward, or forward over a cache of keys, in tiles that never hold a whole score matrix (Dao et al.,
// "FlashAttention", 2022; "FlashAttention-2", 2023).
//
// Query heads share key heads in groups (heads / kv_heads); sequences never see each other. Data is f32 or bf16; sums,
// softmax and its gradient are f32. If products take pairs of bf16 (Bf16Path::kNativeDot), probabilities and the
// gradients of scores are rounded to bf16 before they are multiplied; the sums of a row's probabilities are not.
// Nothing is allocated. A row's bits depend only on its own sequence up to the row (all of it, and its keys, if nothing
// is masked): neither on threads nor on the rest of the stream. Gradients are summed in a fixed order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/parallel.h"
#include "ops/attention/cpu/rows.h"
#include "ops/matmul/cpu/product.h"
#include "tensor/dtype.h"

namespace spillway::cpu {

// The row in the cache of each token and of its sequence's first token: i32 [T] each. Token t sees the rows [first[t],
// own[t]]. Neighbours whose rows are neighbours, too, are worked on together.
struct CachedKeys {
  const int32_t* first = nullptr;
  const int32_t* own = nullptr;
};

// The arguments: T tokens, H heads, K kv_heads, S head_size. Strides are elements between tokens, so that q, k and v
// may be parts of one matrix.
struct AttentionArgs {
  int64_t tokens = 0, heads = 0, kv_heads = 0, head_size = 0;
  // [sequences + 1], from 0 upwards, at most tokens. Tokens after the last sequence get zeros.
  const int32_t* seq_offsets = nullptr;
  int64_t sequences = 0;
  // Set instead of these if k and v are a cache: see CachedKeys.
  CachedKeys cache;
  bool is_causal = true;  // a query sees the keys up to its own; false: all of its sequence
  // If k and v are of another stream: its sequences, as many, over at most key_tokens rows; null: of the same tokens.
  // REQUIRES: not causal then, and no window if not causal.
  const int32_t* key_offsets = nullptr;
  int64_t key_tokens = 0;
  float scale = 1;     // of the scores, usually 1 / sqrt(S)
  float soft_cap = 0;  // above 0: scaled scores s become soft_cap * tanh(s / soft_cap)
  int64_t window = 0;  // a query sees the last `window` keys, itself included; 0: all
  DType dtype = DType::kF32;
  const void* q = nullptr;  // [T, H * S]
  const void* k = nullptr;  // [T, K * S], or of a cache or another stream [rows, K * S]
  const void* v = nullptr;  // as k
  int64_t q_stride = 0, k_stride = 0, v_stride = 0;
  void* o = nullptr;     // [T, H * S], stride H * S
  float* lse = nullptr;  // [T, H]: log of the sum of exp of a row's scores; null: not wanted

  [[nodiscard]] ScoreMap scores() const { return {scale, soft_cap}; }
  [[nodiscard]] const int32_t* offsets_of_keys() const { return key_offsets == nullptr ? seq_offsets : key_offsets; }
  [[nodiscard]] int64_t key_rows() const { return key_offsets == nullptr ? tokens : key_tokens; }
};

// The inputs and results of the forward pass (o and lse are read; no cache), and the gradients, with the strides of q,
// k and v.
struct AttentionGradArgs {
  AttentionArgs forward;
  const void* d_o = nullptr;  // [T, H * S], stride H * S
  void* dq = nullptr;         // [T, H * S]
  void* dk = nullptr;         // as k
  void* dv = nullptr;         // as v
};

// Return the bytes of workspace for up to `tokens` tokens, and keys of up to `key_tokens`. Pure, and the same on every
// CPU.
[[nodiscard]] int64_t attention_workspace_bytes(int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_size,
                                                int threads);
[[nodiscard]] int64_t attention_backward_workspace_bytes(int64_t tokens, int64_t key_tokens, int64_t heads,
                                                         int64_t kv_heads, int64_t head_size, int threads);

// REQUIRES: workspace is 64-byte aligned; heads is a multiple of kv_heads.
void attention_forward(const AttentionArgs& args, std::byte* workspace, ThreadPool& pool);
void attention_backward(const AttentionGradArgs& args, std::byte* workspace, ThreadPool& pool);

// Returns how products of bf16 data are computed: as those of matmul() are. f32 data widens nothing.
[[nodiscard]] Bf16Path bf16_path_of(const AttentionArgs& args);

// Does the same with kernels and path of the caller's choice, for tests.
struct MatmulKernels;
void attention_forward_with(const MatmulKernels& kernels, Bf16Path path, const AttentionArgs& args,
                            std::byte* workspace, ThreadPool& pool);
// The items that threads of the backward pass take in turn. Both have the same bits.
enum class BackwardItems : uint8_t {
  kTiles,      // for any stream
  kSequences,  // 5 products in place of 7; as many items as there are sequences and key heads
};
[[nodiscard]] BackwardItems backward_items(const AttentionArgs& args, int threads);

// REQUIRES: the sums of the longest sequence fit the workspace if items are sequences.
void attention_backward_with(const MatmulKernels& kernels, Bf16Path path, BackwardItems items,
                             const AttentionGradArgs& args, std::byte* workspace, ThreadPool& pool);

}  // namespace spillway::cpu
