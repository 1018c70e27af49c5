// Tiles of f32 in shared memory and the two products of attention.
//
// The threads of a block are a square of kSide x kSide. Thread (y, x) has of a product the rows y, y + kSide, ... and,
// of scores, the columns x, x + kSide, ...; of features, the columns 4 x .. 4 x + 3 of every 64. So the 16 threads that
// share a row are neighbours in one warp.
#pragma once

#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"

namespace spillway::cuda {

constexpr int kSide = 16;
constexpr int kTileThreads = kSide * kSide;
constexpr int kFeatureStep = 4 * kSide;

__device__ inline int thread_y() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ inline int thread_x() { return static_cast<int>(threadIdx.x) % kSide; }

// A tile [kRows, kColumns]; rows are four floats further apart than they are long, so that 16 bytes of neighbouring
// rows lie in different banks.
template <int kRows_, int kColumns_>
struct Tile {
  static constexpr int kRows = kRows_, kColumns = kColumns_, kPitch = kColumns_ + 4;
  static constexpr int kBytes = kRows * kPitch * static_cast<int>(sizeof(float));
  float* data;

  __device__ float& at(int row, int column) const { return data[row * kPitch + column]; }
  __device__ Floats<4> four(int row, int column) const {
    const auto packet = *reinterpret_cast<const Packet<float, 4>*>(data + row * kPitch + column);
    return {packet.at[0], packet.at[1], packet.at[2], packet.at[3]};
  }
};

// Fills row i of the tile with the `width` elements at from + i * pitch, for i < rows, and the rest with zeros. Called
// by all threads.
template <typename Tile, typename T>
__device__ void load_tile(const T* from, int64_t pitch, int rows, int width, Tile tile) {
  constexpr int kWidth = kVector<T>, kVectors = Tile::kColumns / kWidth;
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kRows * kVectors; i += kTileThreads) {
    const int row = i / kVectors, column = i % kVectors * kWidth;
    Floats<kWidth> v = {};
    if (row < rows && column < width) v = load(from + row * pitch, span_at<kWidth>(column, width));
    store(v, &tile.at(row, 0), Span<kWidth>{column, kWidth});
  }
}

// The thread's part of left right', over all columns.
template <typename Left, typename Right>
struct Scores {
  static constexpr int kRows = Left::kRows / kSide, kColumns = Right::kRows / kSide;
  float at[kRows][kColumns];
};

template <typename Left, typename Right>
__device__ Scores<Left, Right> multiply(Left left, Right right) {
  static_assert(Left::kColumns == Right::kColumns);
  using Result = Scores<Left, Right>;
  Result scores = {};
#pragma unroll 4
  for (int column = 0; column < Left::kColumns; column += 4) {
    Floats<4> a[Result::kRows], b[Result::kColumns];
#pragma unroll
    for (int i = 0; i < Result::kRows; ++i) a[i] = left.four(thread_y() + i * kSide, column);
#pragma unroll
    for (int j = 0; j < Result::kColumns; ++j) b[j] = right.four(thread_x() + j * kSide, column);
#pragma unroll
    for (int i = 0; i < Result::kRows; ++i) {
#pragma unroll
      for (int j = 0; j < Result::kColumns; ++j) {
#pragma unroll
        for (int part = 0; part < 4; ++part) scores.at[i][j] += a[i][part] * b[j][part];
      }
    }
  }
  return scores;
}

// The thread's part of [Rows, kHead], in registers.
template <typename Rows>
struct Features {
  static constexpr int kRows = Rows::kRows / kSide, kSteps = Rows::kColumns / kFeatureStep;
  Floats<4> at[kRows][kSteps];

  __device__ void scale(int i, float factor) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int part = 0; part < 4; ++part) at[i][step][part] *= factor;
    }
  }

  // Adds weights times values.
  template <typename Weights, typename Values>
  __device__ void add_product(Weights weights, Values values) {
    static_assert(Weights::kColumns == Values::kRows);
#pragma unroll 2
    for (int k = 0; k < Values::kRows; k += 4) {
      Floats<4> w[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) w[i] = weights.four(thread_y() + i * kSide, k);
#pragma unroll
      for (int part = 0; part < 4; ++part) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          const Floats<4> v = values.four(k + part, step * kFeatureStep + 4 * thread_x());
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
#pragma unroll
            for (int column = 0; column < 4; ++column) at[i][step][column] += w[i][part] * v[column];
          }
        }
      }
    }
  }

  // Stores row i of the tile, `width` elements, at to + i * pitch, if has_row(i).
  template <typename T, typename HasRow>
  __device__ void store_to(T* to, int64_t pitch, int width, const HasRow& has_row) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = thread_y() + i * kSide;
      if (!has_row(row)) continue;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int column = step * kFeatureStep + 4 * thread_x();
        if (column < width) store(at[i][step], to + row * pitch, span_at<4>(column, width));
      }
    }
  }
};

// Reduces over the 16 threads of a row.
template <typename Op>
__device__ float row_reduce(float value, Op op) {
  return warp_reduce<kSide>(value, op);
}

}  // namespace spillway::cuda
