// The operations of one layer, as its description (layer.h) has them.
#pragma once

#include <cstdint>
#include <functional>

#include "model/decoder/layer.h"
#include "model/decoder/parts.h"
#include "ops/selective_scan/selective_scan.h"

namespace spillway {

// Appends what tokens take from the tokens before them: those of the stream, or the layer's states. Each function takes
// the layer's index, and returns kNone where nothing after what it adds to the states is wanted.
struct TokenMixing {
  // Returns what heads attend to, [T, heads * head_dim]: their keys and values, or, where they have none, those of the
  // layer that Attention::keys_of names, which was appended before.
  std::function<ValueId(int64_t layer, const AttentionHeads& heads)> attend;
  // Returns the convolution of x, [T, C]; its operands are ops::causal_conv's.
  std::function<ValueId(int64_t layer, ValueId x, ValueId weight, ValueId bias)> convolve;
  // Returns what the gated delta rule makes of its operands, which are ops::gated_delta_rule's.
  std::function<ValueId(int64_t layer, ValueId qkv, ValueId decay, ValueId beta)> apply_delta_rule;
  // Returns the selective scan of its operands.
  std::function<ValueId(int64_t layer, const ops::ScanOperands& operands)> scan;
};

// Appends layer `index` and returns the residual stream after it, [T, hidden_size], or kNone where `mixing` returns it.
[[nodiscard]] ValueId append_layer(DecoderParts& parts, const DecoderLayer& layer, int64_t index, ValueId stream,
                                   const TokenMixing& mixing);

}  // namespace spillway
