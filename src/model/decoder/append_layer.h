// The operations of one layer, as its description (layer.h) has them.
#pragma once

#include <cstdint>
#include <functional>

#include "model/decoder/layer.h"
#include "model/decoder/parts.h"

namespace spillway {

// Appends what heads attend to, the sequences of the stream or the layer's states, and returns what they see, [T, heads
// * head_dim]. Returns kNone where nothing after the keys and values is wanted.
using Attend = std::function<ValueId(int64_t layer, const AttentionHeads& heads)>;

// Appends layer `index` and returns the residual stream after it, [T, hidden_size], or kNone where `attend` returns it.
[[nodiscard]] ValueId append_layer(DecoderParts& parts, const DecoderLayer& layer, int64_t index, ValueId stream,
                                   const Attend& attend);

}  // namespace spillway
