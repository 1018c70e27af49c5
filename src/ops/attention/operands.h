// The operands of attention, of its gradient and of attention to a cache by name, and what their kernels get on every
// device.
#pragma once

#include <cstdint>
#include <span>

#include "backend/kernel.h"
#include "graph/operation.h"
#include "ops/attention/attention.h"
#include "ops/attention/scores.h"

namespace spillway::ops {
namespace attention_op {

// The inputs of attention. Offsets of keys are there if these are of another stream. Inputs that are absent are kNone
// or, at the end, left out; see find_input().
enum Input : int { kQuery, kKey, kValue, kSeqOffsets, kKeyOffsets, kSinks };
enum Output : int { kOut, kLse };
// The inputs of its gradient, after the first four of attention. The last output is there if a gradient of the sinks is
// wanted, of the dtype that the attribute "sinks_dtype" has.
enum GradInput : int { kOutRead = 4, kLseRead, kDOut, kKeyOffsetsRead, kSinksRead };
enum GradOutput : int { kDQuery, kDKey, kDValue, kDSinks };
// The inputs of attention to a cache, after the first three of attention, of which the keys and values are the cache's.
enum CacheInput : int { kFirst = 3, kOwn, kCacheSinks };

// Return an input that may be absent; null if it is.
[[nodiscard]] inline const ValueType* find_input(TypeList inputs, int at) {
  return inputs.size() > static_cast<size_t>(at) ? inputs[static_cast<size_t>(at)] : nullptr;
}
[[nodiscard]] inline const TensorView* find_input(std::span<const TensorView> inputs, int at) {
  const bool is_there = inputs.size() > static_cast<size_t>(at) && inputs[static_cast<size_t>(at)].data != nullptr;
  return is_there ? &inputs[static_cast<size_t>(at)] : nullptr;
}

}  // namespace attention_op

// `tokens` is that of the longest stream; a library plans for it, with "key_tokens" if keys are of another stream.
[[nodiscard]] Attributes to_attributes(const AttentionOptions& options, int64_t tokens);
// Returns the options that to_attributes() was given.
[[nodiscard]] AttentionOptions attention_options(const Attributes& attributes);

// Returns the same. Throws InputError if the heads do not divide or a size is out of range.
[[nodiscard]] AttentionOptions checked_attention_options(std::string_view op, const Attributes& attributes);
// Throws InputError if there are sinks, and not one real number for each head.
void expect_sinks(std::string_view op, const ValueType* sinks, const AttentionOptions& options);

// The rows in the cache of each token and of its sequence's first token: i32 [T] each. Token t sees the rows
// [first[t], own[t]]. Tokens of one sequence are neighbours, in their order, and are worked on together.
struct CachedKeys {
  const int32_t* first = nullptr;
  const int32_t* own = nullptr;
};

// The arguments of every kernel: T tokens, H heads, K kv_heads, S head_size. Tensors are dense.
struct AttentionArgs {
  int64_t tokens = 0, heads = 0, kv_heads = 0, head_size = 0;
  // [sequences + 1], from 0 upwards, at most tokens. Tokens after the last sequence get zeros.
  const int32_t* seq_offsets = nullptr;
  int64_t sequences = 0;
  // Set instead of these if k and v are a cache.
  CachedKeys cache = {};
  bool is_causal = true;  // a query sees the keys up to its own; false: all of its sequence
  // If k and v are of another stream: its sequences, as many, over at most key_tokens rows; null: of the same tokens.
  // REQUIRES: not causal then, and no window if not causal.
  const int32_t* key_offsets = nullptr;
  int64_t key_tokens = 0;
  ScoreMap scores = {};
  Sinks sinks = {};
  int64_t window = 0;  // a query sees the last `window` keys, itself included; 0: all
  DType dtype = DType::kF32;
  const void* q = nullptr;  // [T, H * S]
  const void* k = nullptr;  // [T, K * S], or of a cache or another stream [rows, K * S]
  const void* v = nullptr;  // as k
  void* o = nullptr;        // [T, H * S]
  float* lse = nullptr;     // [T, H]: log of the sum of exp of a row's scores and its sink; null: not wanted

  [[nodiscard]] const int32_t* offsets_of_keys() const { return key_offsets == nullptr ? seq_offsets : key_offsets; }
  [[nodiscard]] int64_t key_rows() const { return key_offsets == nullptr ? tokens : key_tokens; }
  // Return the elements of a token in q, o and their gradients, and in k, v and theirs.
  [[nodiscard]] int64_t q_width() const { return heads * head_size; }
  [[nodiscard]] int64_t k_width() const { return kv_heads * head_size; }
};

// The arguments of the gradients, from what the forward pass read and wrote; no cache. dq may take o's place.
struct AttentionGradArgs {
  AttentionArgs forward;
  const void* d_o = nullptr;  // [T, H * S]
  void* dq = nullptr;         // [T, H * S]
  void* dk = nullptr;         // as k
  void* dv = nullptr;         // as v
  void* d_sinks = nullptr;    // [H], f32 or bf16; null: not wanted
  DType d_sinks_dtype = DType::kF32;
};

// Return the arguments out of the operands and attributes of attention, of its gradient and of attention to a cache.
[[nodiscard]] AttentionArgs attention_args(const KernelArgs& args);
[[nodiscard]] AttentionGradArgs attention_grad_args(const KernelArgs& args);
[[nodiscard]] AttentionArgs cached_attention_args(const KernelArgs& args);

}  // namespace spillway::ops
