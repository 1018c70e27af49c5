// Converts AttentionOptions to the attributes of an operation, for attention and cached attention.
#pragma once

#include <string_view>

#include "graph/attributes.h"
#include "ops/attention/attention.h"

namespace spillway::ops {

// `tokens` is that of the longest stream; a library plans for it, with "key_tokens" if keys are of another stream.
[[nodiscard]] Attributes to_attributes(const AttentionOptions& options, int64_t tokens);
// Returns true if a token sees no later ones.
[[nodiscard]] inline bool is_causal(const Attributes& attributes) { return attributes.integer_or("causal", 1) != 0; }
// Throws InputError if the heads do not divide or a size is out of range.
void expect_attention_sizes(std::string_view op, const Attributes& attributes);

}  // namespace spillway::ops
