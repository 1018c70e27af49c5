// Operations that mix the tokens of sequences which neighbouring ranks share, but for attention
// (ops/attention/shared_attention.h): convolutions and states. Each rank computes some channels or heads of all tokens.
#pragma once

#include "graph/builder.h"
#include "ops/attention/shared_attention.h"
#include "ops/gated_delta_rule/gated_delta_rule.h"
#include "ops/selective_scan/selective_scan.h"

namespace spillway::ops {

// Each returns what the operation without "shared" does for the rows of this rank, where seq_offsets are those of the
// whole stream, of ranks * T rows or fewer. Rows travel to the ranks that have their channels or heads, and back.
// Channels are dealt out in their order, ceil(C / ranks) to a rank, and value heads likewise; where they are fewer than
// the ranks, the last ones have none. Key heads that several ranks read are sent to each, as are the columns by which a
// scan's channels read and write their states. REQUIRES: stream.ranks >= 2.
[[nodiscard]] ValueId shared_causal_conv(Builder& builder, ValueId x, ValueId weight, ValueId bias, ValueId seq_offsets,
                                         const SharedStream& stream);
[[nodiscard]] ValueId shared_delta_rule(Builder& builder, ValueId qkv, ValueId decay, ValueId beta, ValueId seq_offsets,
                                        const DeltaHeads& heads, const SharedStream& stream);
[[nodiscard]] ValueId shared_selective_scan(Builder& builder, const ScanOperands& operands, ValueId seq_offsets,
                                            const SharedStream& stream);

}  // namespace spillway::ops
