// The part of an attention that a library computes: cuDNN, on tensor cores. The rest is for our own kernels
// (attention_kernels.h), which know of it as LeftOut.
//
// A library's kernels are started for a fixed number of sequences of a fixed greatest length; what a stream holds is
// known on the GPU alone. So the library gets the first sequences of a stream, each with its own length, and what is
// longer than the job's sequences or comes after them goes to our kernels. Both are started for every stream: which of
// them computes a row depends on the stream and on nothing else, so that results repeat, and all of it can be captured
// in a graph.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "backend/cuda/attention_kernels.h"
#include "backend/kernel.h"
#include "base/bytes.h"
#include "base/math.h"

namespace spillway::cuda {

// Of the operation with all its tokens.
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

// What a library may do of an attention, by its attributes and the types of its operands: bf16, and heads that cuDNN's
// engines take; no cap of scores. `max_sequences`: of a stream.
[[nodiscard]] inline LibraryAttention library_attention(const Attributes& attributes, DType dtype,
                                                        int64_t max_sequences, bool is_backward) {
  // Blocks are started for `sequences` times `longest` tokens, and those without work end at once: a few times the
  // tokens of a stream cost little, and leave few sequences to our kernels.
  constexpr int64_t kMaxRows = 8;
  constexpr int64_t kHeadStep = 16, kMaxHead = 256;
  LibraryAttention result{.tokens = attributes.integer("tokens"),
                          .heads = attributes.integer("heads"),
                          .kv_heads = attributes.integer("kv_heads"),
                          .head_size = attributes.integer("head_size"),
                          .window = attributes.integer("sliding_window"),
                          .is_causal = attributes.integer_or("causal", 1) != 0,
                          .key_tokens = attributes.integer_or("key_tokens", 0),
                          .scale = static_cast<float>(attributes.real("scale")),
                          .is_backward = is_backward};
  for (const auto& [name, number] : attributes.entries()) {
    if (name == "soft_cap") return result;  // which its engines do not have
  }
  if (dtype != DType::kBF16 || result.head_size % kHeadStep != 0 || result.head_size > kMaxHead || result.tokens == 0)
    return result;
  const int64_t usual = attributes.integer("sequence_len");
  result.longest = usual > 0 ? std::min(usual, result.tokens) : result.tokens;
  result.sequences = std::min(max_sequences, kMaxRows * result.tokens / result.longest);
  result.longest_keys = result.longest;
  if (result.key_tokens == 0) return result;
  const int64_t usual_keys = attributes.integer("key_sequence_len");
  result.longest_keys = usual_keys > 0 ? std::min(usual_keys, result.key_tokens) : result.key_tokens;
  return result;
}

// The workspace of our own kernels beside the library.
[[nodiscard]] inline AttentionWorkspace own_workspace(const LibraryAttention& attention) {
  return {attention.tokens, attention.heads, attention.is_causal, attention.key_rows()};
}

// Offsets into the workspace, of nothing where the library has no part. Backward, `copy` has room for o, whose place dq
// may take. `engine` is the library's own. What cuDNN asks for backward is dq in f32, dk and dv of each query head
// where heads share keys, a sum for each row of each head, and less than that for the order of its blocks.
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

// Puts the library's part into the stream of the kernel that `kernel` was given to, and returns which sequences that
// is; none where the library is missing, has no deterministic engine for this GPU and shape, or wants more workspace
// than LibraryWorkspace has. Backward, dq may take o's place; then `args` gets a copy for o, since the library may
// write any row of dq.
[[nodiscard]] LeftOut attend(const LibraryAttention& attention, const AttentionArgs& args, const Sequences& sequences,
                             std::byte* workspace, const KernelArgs& kernel);
[[nodiscard]] LeftOut attend_backward(const LibraryAttention& attention, AttentionGradArgs& args,
                                      const Sequences& sequences, std::byte* workspace, const KernelArgs& kernel);

// From the offsets of sequences, what the library wants to know: i64 [attention.sequences + 1] each, counted in
// elements of q, of k and of lse; and i32 [attention.sequences], 0 for a sequence that is not the library's, twice
// where keys are of another stream.
void describe_sequences(const LibraryAttention& attention, const Sequences& sequences, std::byte* workspace,
                        void* stream);

}  // namespace spillway::cuda
