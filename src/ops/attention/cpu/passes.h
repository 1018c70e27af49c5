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
#include "ops/attention/operands.h"
#include "ops/matmul/cpu/product.h"
#include "tensor/dtype.h"

namespace spillway::cpu {

using ops::AttentionArgs;
using ops::AttentionGradArgs;

// Return the bytes of workspace for up to `tokens` tokens, and keys of up to `key_tokens`. Pure, and the same on every
// CPU.
[[nodiscard]] int64_t attention_workspace_bytes(int64_t tokens, int64_t heads, int64_t head_size, int threads);
[[nodiscard]] int64_t attention_backward_workspace_bytes(int64_t tokens, int64_t key_tokens, int64_t heads,
                                                         int64_t head_size, int threads);

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
