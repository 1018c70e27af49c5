// Rotary position embedding over several axes (time, height, width), in the interleaved layout of diffusers' Wan.
#pragma once

#include <array>
#include <cstdint>

#include "graph/builder.h"

namespace spillway::ops {

constexpr int64_t kMaxAxialHeadSize = 512;

// The number of elements of a head that turn with the position along each axis: even numbers, the first elements for
// the first axis.
using AxisSizes = std::array<int64_t, 3>;

// Returns WanTransformer3DModel's division of a head of S: time gets S - 4 (S / 6), height and width 2 (S / 6) each.
[[nodiscard]] constexpr AxisSizes video_axis_sizes(int64_t head_size) {
  const int64_t of_space = 2 * (head_size / 6);
  return {head_size - 2 * of_space, of_space, of_space};
}

// Rotates each head of x [T, H * S] (f32 or bf16): the elements 2 i and 2 i + 1 of an axis of size D are a pair, which
// turns by positions[t][axis] * theta^(-2 i / D). positions i32 [T, 3]; S, the sum of the sizes, is at most
// kMaxAxialHeadSize. Angles are f64, brought near zero before they are rounded; cos, sin and the rotation are f32. May
// take the place of x.
[[nodiscard]] ValueId axial_rope(Builder& builder, ValueId x, ValueId positions, const AxisSizes& sizes,
                                 double theta = 10000);

}  // namespace spillway::ops
