// The activation that an operation computes, and the constants of its formula for both kinds of kernels.
#pragma once

#include <cstdint>

#include "backend/kernel.h"

namespace spillway::ops {

enum class ActivationKind : uint8_t { kSilu, kGelu, kGeluTanh, kReluSquared };

[[nodiscard]] inline ActivationKind activation_of(const KernelArgs& args) {
  return static_cast<ActivationKind>(args.attributes.integer("kind"));
}

// gelu_tanh(x) = x * sigmoid(2 u), u = kRoot (x + kCube x^3).
constexpr float kGeluRoot = 0.79788456f, kGeluCube = 0.044715f;
// The density at 0 of the normal distribution.
constexpr float kNormalDensity = 0.39894228f;
constexpr float kHalfRoot = 0.70710678f;

// exp(z^2) erfc(z) for z from 0 to 10, where erfc leaves f32: t P(t), t = 1 / (1 + z / 2). P interpolates at
// Chebyshev's points; its relative error is 5e-8, in f32 some 3e-7.
constexpr float kErfcx[] = {0.282082674f, 0.282445042f,  0.242572893f, 0.204853655f, -0.0318417575f,
                            0.28569771f,  -0.493863649f, 0.28776831f,  -0.059714919f};

}  // namespace spillway::ops
