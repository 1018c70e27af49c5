// Splits a matrix by rows into tiles of one size, and joins them again: what is computed row by row may take one tile
// after the other (ModelOptions::mlp_tiles).
#pragma once

#include <cstdint>
#include <vector>

#include "graph/builder.h"

namespace spillway::ops {

// The shape of the tiles of a matrix: how many, and the axis that counts the rows of one.
struct RowTiles {
  int64_t count = 0;
  AxisId axis = kNoAxis;
};

// Returns x [T, D], f32 or bf16, as tiles [R, D] of its type, bit for bit: tile i has the rows from i * R on, with
// zeros behind the last row of x. R is the capacity of the tiles' axis, and in a run its rows. REQUIRES: count * R >=
// T, of the capacities and in every run.
[[nodiscard]] std::vector<ValueId> split_rows(Builder& builder, ValueId x, const RowTiles& tiles);

// Returns the matrix [T, D] whose tiles [R, D] these are, where `axis` counts T; rows of tiles beyond T are dropped,
// and kNone stands for zeros. REQUIRES: one tile is there.
[[nodiscard]] ValueId join_rows(Builder& builder, const std::vector<ValueId>& tiles, AxisId axis);

}  // namespace spillway::ops
