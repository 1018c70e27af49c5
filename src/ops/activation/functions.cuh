// The activations of one number and their slopes on the GPU: for operations on an activation alone and for gated ones.
#pragma once

#include "backend/cuda/launch.cuh"
#include "ops/activation/kinds.h"

namespace spillway::ops {

// Returns 1 / (1 + exp(-x)), without overflow on either side.
__device__ inline float logistic(float x) {
  const float small = expf(-fabsf(x));
  return (x < 0 ? small : 1.0f) / (1.0f + small);
}

// Each of these structs has the activation and its slope; the formulas are those of functions-inl.h.
struct Silu {
  __device__ static float value(float x) { return x * logistic(x); }
  __device__ static float slope(float x) {
    const float s = logistic(x);
    return s * (1 + x * (1 - s));
  }
};

struct Gelu {
  __device__ static float value(float x) { return x * (0.5f * erfcf(-x * kHalfRoot)); }
  __device__ static float slope(float x) {
    return 0.5f * erfcf(-x * kHalfRoot) + x * kNormalDensity * expf(-0.5f * x * x);
  }
};

struct GeluTanh {
  __device__ static float weight(float x) { return logistic(2 * kGeluRoot * x * (1 + kGeluCube * x * x)); }
  __device__ static float value(float x) { return x * weight(x); }
  __device__ static float slope(float x) {
    const float s = weight(x);
    if (fabsf(x) >= 16) return s;
    return s + x * s * (1 - s) * (2 * kGeluRoot * (1 + 3 * kGeluCube * x * x));
  }
};

// The square of relu; NaN stays NaN.
struct ReluSquared {
  __device__ static float positive(float x) { return x < 0 ? 0 : x; }
  __device__ static float value(float x) { return positive(x) * positive(x); }
  __device__ static float slope(float x) { return 2 * positive(x); }
};

}  // namespace spillway::ops
