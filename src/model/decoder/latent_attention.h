// Latent attention: its projections, in place of those of queries, keys and values.
#pragma once

#include <string>

#include "model/decoder/layer.h"
#include "model/decoder/parts.h"

namespace spillway {

// Appends the projections of the layer whose names begin with `prefix`, for x [T, hidden_size], and returns its heads,
// rotated. Values are as wide as keys: zeros follow those of each head, since kernels of attention know heads of one
// size; transformers does the same where a kernel asks for it.
//
// Source: DeepSeek-V2, 2024.
[[nodiscard]] AttentionHeads append_latent_heads(DecoderParts& parts, const Attention& attention,
                                                 const std::string& prefix, ValueId x);

// Returns what heads attend to, [T, heads * head_dim], without what the zeros gave: [T, heads * value_dim].
[[nodiscard]] ValueId narrow_to_values(Builder& builder, const Attention& attention, ValueId attended);

}  // namespace spillway
