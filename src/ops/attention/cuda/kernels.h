// Our own attention on the GPU, forward and backward: causal or not, packed sequences, of themselves or of another
// stream, grouped heads, sliding windows, sinks; and cached attention.
//
// Scores exist only as tiles (Dao et al., "FlashAttention", 2022; "FlashAttention-2", 2023). All arithmetic is f32, in
// one fixed order: equal inputs give equal bits, forward and backward.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "ops/attention/cuda/library_attention.h"
#include "ops/attention/operands.h"

namespace spillway::cuda {

using ops::AttentionArgs;
using ops::AttentionGradArgs;

constexpr int64_t kMaxAttentionHead = 256;

// Throws InputError if the head is larger.
void expect_head_fits(int64_t head_size);

// The workspace of both passes, for up to `tokens` tokens: i32 [T], the first key of each row, then f32 [T, H]. If
// attention is not causal, i32 [T] more, the last key of each row, and i32 [key tokens] twice, the first and the last
// row that sees each key.
struct AttentionWorkspace {
  int64_t delta, last_key, first_row, last_row, bytes;
  AttentionWorkspace(int64_t tokens, int64_t heads, bool is_causal, int64_t key_tokens)
      : delta(after(0, tokens)),
        last_key(after(delta, tokens * heads)),
        first_row(after(last_key, is_causal ? 0 : tokens)),
        last_row(after(first_row, is_causal ? 0 : key_tokens)),
        bytes(after(last_row, is_causal ? 0 : key_tokens)) {}

 private:
  static int64_t after(int64_t offset, int64_t words) {
    return align_up(offset + words * int64_t{sizeof(int32_t)}, 256);
  }
};

// These three throw as expect_head_fits() does for a larger head. Sequences that are left out keep the contents of
// their outputs. REQUIRES: head_size is at most kMaxAttentionHead.
void attention_forward(const AttentionArgs& args, const LeftOut& left_out, std::byte* workspace, void* stream);
void attention_backward(const AttentionGradArgs& args, const LeftOut& left_out, std::byte* workspace, void* stream);

// Computes attention with the keys of a cache. Needs no workspace.
void attention_on_cache(const AttentionArgs& args, void* stream);

}  // namespace spillway::cuda
