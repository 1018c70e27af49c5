// Sums over matrices on a GPU, in the order of ops/optimizers/whole_matrix.h. Files that use it are compiled without
// fusing, so that the bits are the CPU's.
//
// f(row, column) gives an element; a function that visits each element once may store there, too.
#pragma once

#include "backend/cuda/reduce.cuh"
#include "ops/optimizers/step_numbers.cuh"
#include "ops/optimizers/whole_matrix.h"
#include "ops/real.h"
#include "ops/squared_norm/total.cuh"

namespace spillway::ops {

constexpr int kMatrixThreads = 256;
constexpr int kMatrixWarps = kMatrixThreads / cuda::kWarp;

// Does step 1 with a warp for each row.
template <typename Function>
__global__ void __launch_bounds__(kMatrixThreads) row_sums_kernel(MatrixSize size, Function f, float* sums) {
  static_assert(kRowSums == cuda::kWarp, "a lane for each sum");
  const int64_t row = int64_t{blockIdx.x} * kMatrixWarps + cuda::warp_index();
  if (row >= size.rows) return;
  float sum = 0;
  for (int64_t j = cuda::lane_index(); j < size.columns; j += cuda::kWarp) sum += f(row, j);
  sum = cuda::warp_reduce(sum, cuda::Sum());
  if (cuda::lane_index() == 0) sums[row] = sum;
}

// Does the first half of step 2 with a thread for each column of each block of rows.
template <typename Function>
__global__ void __launch_bounds__(kMatrixThreads) column_sums_kernel(MatrixSize size, Function f, float* sums) {
  const int64_t tiles = div_ceil(size.columns, int64_t{kMatrixThreads}), block = blockIdx.x / tiles;
  const int64_t column = blockIdx.x % tiles * kMatrixThreads + threadIdx.x;
  if (column >= size.columns) return;
  const int64_t end = std::min(size.rows, (block + 1) * size.block_rows());
  float sum = 0;
  for (int64_t row = block * size.block_rows(); row < end; ++row) sum += f(row, column);
  sums[block * size.columns + column] = sum;
}

// Uses a thread for each of `count`.
template <typename Body>
__global__ void __launch_bounds__(kMatrixThreads) for_each_kernel(int64_t count, Body body) {
  const int64_t i = int64_t{blockIdx.x} * kMatrixThreads + threadIdx.x;
  if (i < count) body(i);
}
template <typename Body>
void for_each(int64_t count, const Body& body, void* stream) {
  cuda::launch(for_each_kernel<Body>, {div_ceil(count, int64_t{kMatrixThreads}), kMatrixThreads}, stream, count, body);
}

template <typename Function>
void sum_rows(const MatrixSize& size, const Function& f, const MatrixScratch& scratch, void* stream) {
  cuda::launch(row_sums_kernel<Function>, {div_ceil(size.rows, int64_t{kMatrixWarps}), kMatrixThreads}, stream, size, f,
               scratch.row_sums);
}

// Does steps 1 and 3, calling f once for each element; one thread calls finish(the sum of all).
template <typename Function, typename Finish>
void sum_matrix(const MatrixSize& size, const Function& f, const MatrixScratch& scratch, const Finish& finish,
                void* stream) {
  sum_rows(size, f, scratch, stream);
  add_total(scratch.row_sums, size.rows, finish, stream);
}

__device__ inline float inverse_root(float x) { return 1.0F / sqrtf(x); }

__device__ inline float next_mean(const MeanWeights& weights, float last, float next) {
  return last * weights.last + next * weights.next;
}

// Computes the next means. Weights and other numbers are read when the kernel runs.
struct NextMeans {
  const MeanWeights* weights;
  const float *last, *sums;
  float* means;
  int64_t count, blocks, columns;  // the numbers in a mean; sums[block * columns + i] are added first
  float* factors;                  // the inverse roots of the means, or null

  __device__ void operator()(int64_t i) const {
    float sum = sums[i];
    for (int64_t block = 1; block < blocks; ++block) sum += sums[block * columns + i];
    const float next = next_mean(*weights, last[i], sum / static_cast<float>(count));
    means[i] = next;
    if (factors != nullptr) factors[i] = inverse_root(next);
  }
};

struct RowFactors {
  const float *means, *mean;
  float* factors;
  __device__ void operator()(int64_t i) const { factors[i] = inverse_root(means[i] / *mean); }
};

struct StoreMean {
  float* mean;
  int64_t count;
  __device__ void operator()(double total) const { *mean = static_cast<float>(total / static_cast<double>(count)); }
};

// Computes the next means of f over rows and columns, and the scratch's factors of them, which f may still read. `mean`
// is room for a number.
template <typename Function>
void update_factors(const MatrixSize& size, const Function& f, const MeanWeights* weights, const MeanSquares& state,
                    const MatrixScratch& scratch, float* mean, void* stream) {
  sum_rows(size, f, scratch, stream);
  const int64_t tiles = div_ceil(size.columns, int64_t{kMatrixThreads});
  cuda::launch(column_sums_kernel<Function>, {size.blocks() * tiles, kMatrixThreads}, stream, size, f,
               scratch.column_sums);
  for_each(size.rows, NextMeans{weights, state.rows_in, scratch.row_sums, state.rows, size.columns, 1, 0, nullptr},
           stream);
  for_each(size.columns,
           NextMeans{weights, state.columns_in, scratch.column_sums, state.columns, size.rows, size.blocks(),
                     size.columns, scratch.column_factors},
           stream);
  add_total(state.rows, size.rows, StoreMean{mean, size.rows}, stream);
  for_each(size.rows, RowFactors{state.rows, mean, scratch.row_factors}, stream);
}

// The gradients, clipped.
template <typename T>
struct Gradients {
  explicit Gradients(const KernelArgs& args, int64_t row_elems)
      : from(args.inputs[update_input::kGradient].as<T>()),
        columns(row_elems),
        clip(args.inputs[update_input::kClip].as<float>()) {}
  __device__ float operator()(int64_t row, int64_t column) const {
    return to_float(from[row * columns + column]) * (clip != nullptr ? *clip : 1.0F);
  }

  const T* from;
  int64_t columns;
  const float* clip;  // null: 1
};

template <typename T>
struct SquareOfGradient {
  Gradients<T> gradients;
  const float* eps;
  __device__ float operator()(int64_t row, int64_t column) const {
    const float g = gradients(row, column);
    return g * g + *eps;
  }
};

template <typename T>
struct NextSquares {
  SquareOfGradient<T> square;
  const MeanWeights* weights;
  const float* last;
  float* next;
  __device__ void operator()(int64_t i) const { next[i] = next_mean(*weights, last[i], square(0, i)); }
};

// Gradients over the root of a mean of their squares, which is the scratch's factors or, for a vector, `squares`.
template <typename T, bool kFactored>
struct Direction {
  Gradients<T> gradients;
  MatrixScratch scratch;
  const float* squares;
  __device__ float operator()(int64_t row, int64_t column) const {
    const float g = gradients(row, column);
    return kFactored ? g * (scratch.row_factors[row] * scratch.column_factors[column])
                     : g * inverse_root(squares[column]);
  }
};

// Computes the next mean of squares of gradients, with eps, and returns the direction that follows from it.
template <bool kFactored, typename T>
Direction<T, kFactored> update_direction(const MatrixSize& size, const Gradients<T>& gradients, const float* eps,
                                         const MeanWeights* weights, const MeanSquares& state,
                                         const MatrixScratch& scratch, float* mean, void* stream) {
  const SquareOfGradient<T> square{gradients, eps};
  if constexpr (kFactored) {
    update_factors(size, square, weights, state, scratch, mean, stream);
  } else {
    for_each(size.columns, NextSquares<T>{square, weights, state.rows_in, state.rows}, stream);
  }
  return {gradients, scratch, state.rows};
}

template <typename Function>
struct Squared {
  Function f;
  __device__ float operator()(int64_t row, int64_t column) const {
    const float value = f(row, column);
    return value * value;
  }
};

struct StoreClippedRate {
  const float* whole;  // null: 1
  int64_t elems;
  double threshold;
  float* rate;
  __device__ void operator()(double squares) const {
    *rate = clipped_rate(whole != nullptr ? *whole : 1.0F, squares, elems, threshold);
  }
};

// Writes p * decay - rate * f to the weight and its working copy.
template <int kStates, typename Function>
struct Move {
  UpdateViews<kStates> views;
  int64_t columns;
  const float *decay, *rate;
  Function f;
  __device__ void operator()(int64_t i) const {
    const float p = views.p_in[i] * *decay - *rate * f(i / columns, i % columns);
    views.p[i] = p;
    if (views.copy != nullptr) views.copy[i] = cuda::from_float<bf16>(p);
  }
};
template <int kStates, typename Function>
void move_weight(const MatrixSize& size, const UpdateViews<kStates>& views, const float* decay, const float* rate,
                 const Function& f, void* stream) {
  for_each(size.rows * size.columns, Move<kStates, Function>{views, size.columns, decay, rate, f}, stream);
}

}  // namespace spillway::ops
