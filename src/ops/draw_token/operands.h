// The operands of draw_token.
#pragma once

namespace spillway::ops::draw_token_op {

// These are the members of DrawTokenInputs.
enum Input : int { kLogits, kBarred, kInverseTemperature, kUniform, kLogprobInverseTemperature };
enum Output : int { kIds, kLogprobs };

}  // namespace spillway::ops::draw_token_op
