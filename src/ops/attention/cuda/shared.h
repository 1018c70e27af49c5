// The part of an attention that a library computes: cuDNN, on tensor cores. The rest is for our own kernels
// (kernels.h), to which this part is LeftOut.
//
// A library's kernels are started for a fixed number of sequences of a fixed greatest length; the actual ones are known
// on the GPU alone. So the library gets the first sequences of a stream, each with its own length, and sequences that
// are longer than the job's or come after them go to our kernels. Both are started for every stream: which of them
// computes a row depends only on the stream, so that results repeat, and all of it can be captured in a graph.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/kernel.h"
#include "ops/attention/cuda/kernels.h"
#include "ops/attention/cuda/library_attention.h"

namespace spillway::cuda {

// Returns the part of an attention that a library may compute, by its attributes and the types of its operands: bf16,
// and heads that cuDNN's engines take; no cap of scores, and no sinks. `max_sequences` is that of a stream.
[[nodiscard]] inline LibraryAttention library_attention(const Attributes& attributes, DType dtype,
                                                        int64_t max_sequences, bool has_sinks, bool is_backward) {
  // Blocks are started for `sequences` times `longest` tokens, and those without work end at once: a few times the
  // tokens of a stream cost little, and leave few sequences to our kernels.
  constexpr int64_t kMaxRows = 8;
  constexpr int64_t kHeadStep = 16, kMaxHead = 256;
  const ops::AttentionOptions options = ops::attention_options(attributes);
  LibraryAttention result{.tokens = attributes.integer("tokens"),
                          .heads = options.heads,
                          .kv_heads = options.kv_heads,
                          .head_size = options.head_size,
                          .window = options.sliding_window,
                          .is_causal = options.causal,
                          .key_tokens = attributes.integer_or("key_tokens", 0),
                          .scale = static_cast<float>(options.scale),
                          .is_backward = is_backward};
  if (options.soft_cap > 0 || has_sinks) return result;  // which its engines do not have
  if (dtype != DType::kBF16 || result.head_size % kHeadStep != 0 || result.head_size > kMaxHead || result.tokens == 0)
    return result;
  const int64_t usual = options.sequence_len;
  result.longest = usual > 0 ? std::min(usual, result.tokens) : result.tokens;
  result.sequences = std::min(max_sequences, kMaxRows * result.tokens / result.longest);
  result.longest_keys = result.longest;
  if (result.key_tokens == 0) return result;
  const int64_t usual_keys = options.key_sequence_len;
  result.longest_keys = usual_keys > 0 ? std::min(usual_keys, result.key_tokens) : result.key_tokens;
  return result;
}

// Returns the workspace of our own kernels beside the library.
[[nodiscard]] inline AttentionWorkspace own_workspace(const LibraryAttention& attention) {
  return {attention.tokens, attention.heads, attention.is_causal, attention.key_rows()};
}

// Puts the library's part into the stream of the kernel that got `kernel`, and returns the sequences of that part; none
// if the library is missing, has no deterministic engine for this GPU and shape, or needs more workspace than
// LibraryWorkspace has. In the backward pass, dq may take o's place; then `args` gets a copy for o, since the library
// may write any row of dq.
[[nodiscard]] LeftOut attend(const LibraryAttention& attention, const AttentionArgs& args, std::byte* workspace,
                             const KernelArgs& kernel);
[[nodiscard]] LeftOut attend_backward(const LibraryAttention& attention, AttentionGradArgs& args, std::byte* workspace,
                                      const KernelArgs& kernel);

// Converts the offsets of sequences for the library: i64 [attention.sequences + 1] each, counted in elements of q, of k
// and of lse; and i32 [attention.sequences], 0 for a sequence that is not the library's, twice if keys are of another
// stream.
void describe_sequences(const LibraryAttention& attention, const AttentionArgs& args, std::byte* workspace,
                        void* stream);

}  // namespace spillway::cuda
