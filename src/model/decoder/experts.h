// The parts of a mixture of experts: the router, the experts, and the expert that all tokens share.
//
// No expert has a capacity, and no token is dropped: the rows of all pairs of a token and one of its experts are sorted
// by expert, and multiplied by that expert's weights.
#pragma once

#include <string>

#include "model/decoder/layer.h"
#include "model/decoder/parts.h"

namespace spillway {

// The rows that the experts read, [T, hidden_size], and those that the router reads.
struct MixtureInputs {
  ValueId experts = kNone, router = kNone;
};

// Appends the mixture of the layer whose names begin with `prefix`, and returns what it gives, [T, hidden_size],
// plus the residual, if that is not kNone. Each expert's projections are weights of their own, under the names that
// they have in files. Their products have the same bits, whether an operation takes all experts or, with
// ModelOptions::streams_experts, a few.
[[nodiscard]] ValueId append_mixture(DecoderParts& parts, const Mixture& mixture, const std::string& prefix,
                                     const MixtureInputs& inputs, ValueId residual);

// Appends, behind the layers, what their mixtures compute together: the load-balancing loss and the metrics that the
// options ask for.
void append_expert_loads(DecoderParts& parts, ModelGraph& model);

}  // namespace spillway
