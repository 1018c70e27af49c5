// The parts of a mixture of experts: the router, the experts, and the expert that all tokens share.
//
// No expert has a capacity, and no token is dropped: the rows of all pairs of a token and one of its experts are sorted
// by expert, and multiplied by that expert's weights.
#pragma once

#include <string>

#include "model/decoder/layer.h"
#include "model/decoder/parts.h"

namespace spillway {

// Appends the mixture of the layer whose names begin with `prefix`, for x [T, hidden_size], and returns what it gives,
// plus the residual, if that is not kNone. Each expert's projections are weights of their own, under the names that
// they have in files. Their products have the same bits, whether an operation takes all experts or, with
// ModelOptions::streams_experts, a few.
[[nodiscard]] ValueId append_mixture(DecoderParts& parts, const Mixture& mixture, const std::string& prefix, ValueId x,
                                     ValueId residual);

// Appends, behind the layers, what their mixtures compute together: the load-balancing loss and the metrics that the
// options ask for.
void append_expert_loads(DecoderParts& parts, ModelGraph& model);

}  // namespace spillway
