// The description of an attention for a library, which computes a part of its sequences.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "base/math.h"
#include "tensor/dtype.h"

namespace spillway::cuda {

// The sequences that another library computes: the first `sequences`, except those with more queries than `longest` or
// more keys than `longest_keys`, and those without any of either.
struct LeftOut {
  int32_t sequences = 0, longest = 0, longest_keys = 0;
};

// The parameters of the operation with all its tokens.
struct LibraryAttention {
  int64_t tokens = 0, heads = 0, kv_heads = 0, head_size = 0, window = 0;
  bool is_causal = true;
  int64_t key_tokens = 0;  // where keys are of another stream; else 0
  float scale = 1;
  int64_t sequences = 0, longest = 0;  // none: the library has no part in it
  int64_t longest_keys = 0;            // `longest` where keys are of the same tokens
  bool is_backward = false;
  auto operator<=>(const LibraryAttention&) const = default;

  [[nodiscard]] LeftOut left_out() const {
    return {static_cast<int32_t>(sequences), static_cast<int32_t>(longest), static_cast<int32_t>(longest_keys)};
  }
  [[nodiscard]] int64_t key_rows() const { return key_tokens > 0 ? key_tokens : tokens; }
};

// The offsets into the workspace; it is empty if the library has no part in the operation. In the backward pass, `copy`
// has room for o, whose place dq may take. `engine` is the library's own. In the backward pass cuDNN needs dq in f32,
// dk and dv of each query head if heads share keys, a sum for each row of each head, and less than that for the order
// of its blocks.
struct LibraryWorkspace {
  int64_t q_offsets = 0, kv_offsets = 0, lse_offsets = 0, lengths = 0, key_lengths = 0, copy = 0, engine = 0;
  int64_t bytes = 0;

  explicit LibraryWorkspace(const LibraryAttention& attention) {
    if (attention.sequences == 0) return;
    const auto take = [&](int64_t count) { return std::exchange(bytes, align_up(bytes + count, 256)); };
    const int64_t index_bytes = (attention.sequences + 1) * int64_t{sizeof(int64_t)};
    const int64_t rows = attention.tokens * attention.heads, elems = rows * attention.head_size;
    constexpr int64_t kSlack = kMiB;
    q_offsets = take(index_bytes);
    kv_offsets = take(index_bytes);
    lse_offsets = take(index_bytes);
    lengths = key_lengths = take(attention.sequences * int64_t{sizeof(int32_t)});
    if (attention.key_tokens > 0) key_lengths = take(attention.sequences * int64_t{sizeof(int32_t)});
    copy = take(attention.is_backward ? elems * int64_t{sizeof(bf16)} : 0);
    const int64_t key_elems = attention.key_rows() * attention.heads * attention.head_size;
    const int64_t sums = elems + (attention.heads == attention.kv_heads ? 0 : 2 * key_elems);
    engine = take(kSlack + (attention.is_backward ? (sums + 2 * rows) * int64_t{sizeof(float)} : 0));
  }
};

}  // namespace spillway::cuda
