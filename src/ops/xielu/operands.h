// The operands of xielu and of its gradient.
#pragma once

namespace spillway::ops::xielu_op {

enum Input : int { kX, kAlphaP, kAlphaN, kBeta, kEps };
// The inputs of the gradient behind those; the addends are those of the gradients of alpha_p and alpha_n.
enum GradInput : int { kDy = 5, kAlphaPAddend, kAlphaNAddend };
// The outputs of the gradient behind dx.
enum GradOutput : int { kDAlphaP = 1, kDAlphaN };

}  // namespace spillway::ops::xielu_op
