// Sums over matrices on the CPU, in the order of ops/optimizers/whole_matrix.h, for files that Highway compiles once
// for each instruction set (see ops/simd.h).
//
// f(row, column, count) gives the elements from `column` on, of which the first `count` count; f may store its results
// for them.
#if defined(SPILLWAY_OPS_WHOLE_MATRIX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_WHOLE_MATRIX_INL_H
#undef SPILLWAY_OPS_WHOLE_MATRIX_INL_H
#else
#define SPILLWAY_OPS_WHOLE_MATRIX_INL_H
#endif

#include <cmath>

#include "ops/optimizers/update-inl.h"
#include "ops/optimizers/whole_matrix.h"
#include "ops/squared_norm/order.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Calls f(column, count) for every vector of a row.
template <typename Function>
HWY_INLINE void for_each_vector(int64_t columns, const Function& f) {
  for (int64_t j = 0; j < columns; j += lanes()) f(j, std::min(lanes(), columns - j));
}

// Does step 1 of the order, while a row's vectors go by.
class RowSum {
 public:
  HWY_INLINE RowSum() {
    for (int64_t i = 0; i < kRowSums; i += lanes()) store(zero(), sums_ + i);
  }
  HWY_INLINE void add(int64_t column, Vector v) {
    float* const at = sums_ + column % kRowSums;
    store(hn::Add(load(at), v), at);
  }
  HWY_INLINE float total() {
    add_halves<kRowSums>(sums_);
    return sums_[0];
  }

 private:
  alignas(64) float sums_[kRowSums];
};

HWY_INLINE Vector first_lanes(Vector v, int64_t count) {
  return count == lanes() ? v : hn::IfThenElseZero(hn::FirstN(Floats(), static_cast<size_t>(count)), v);
}

// Does steps 1 and 3: returns the sum of f over all elements, once for each.
template <typename Function>
double sum_matrix(const MatrixSize& size, const Function& f, const MatrixScratch& scratch, ThreadPool& threads) {
  threads.parallel_for(size.rows, row_grain(size.columns), [&](int64_t begin, int64_t end, int) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      RowSum sum;
      for_each_vector(size.columns,
                      [&](int64_t j, int64_t count) HWY_ATTR { sum.add(j, first_lanes(f(row, j, count), count)); });
      scratch.row_sums[row] = sum.total();
    }
  });
  return total_of(scratch.row_sums, size.rows);
}

// Does steps 1 and 2: the sums of rows and, for each block of them, of columns.
template <typename Function>
void sum_rows_and_columns(const MatrixSize& size, const Function& f, const MatrixScratch& scratch,
                          ThreadPool& threads) {
  threads.parallel_for(size.blocks(), 1, [&](int64_t begin, int64_t end, int) HWY_ATTR {
    for (int64_t block = begin; block < end; ++block) {
      float* const columns = scratch.column_sums + block * size.columns;
      std::fill(columns, columns + size.columns, 0.0F);
      const int64_t row_end = std::min(size.rows, (block + 1) * size.block_rows());
      for (int64_t row = block * size.block_rows(); row < row_end; ++row) {
        RowSum sum;
        for_each_vector(size.columns, [&](int64_t j, int64_t count) HWY_ATTR {
          const Vector v = first_lanes(f(row, j, count), count);
          sum.add(j, v);
          store_lanes(hn::Add(load_lanes(columns + j, count), v), columns + j, count);
        });
        scratch.row_sums[row] = sum.total();
      }
    }
  });
}

HWY_INLINE Vector next_mean(const MeanWeights& weights, Vector last, Vector next) {
  return hn::Add(hn::Mul(last, constant(weights.last)), hn::Mul(next, constant(weights.next)));
}
// Returns one over the root.
HWY_INLINE Vector inverse_root(Vector v) { return hn::Div(constant(1), hn::Sqrt(v)); }

// Computes the next means of f over rows and columns, and the scratch's factors of them, which f may still read.
template <typename Function>
void update_factors(const MatrixSize& size, const Function& f, const MeanWeights& weights, const MeanSquares& state,
                    const MatrixScratch& scratch, ThreadPool& threads) {
  sum_rows_and_columns(size, f, scratch, threads);
  const auto next = [&](Vector last, Vector sum, int64_t count) HWY_ATTR {
    const Vector mean = hn::Div(sum, constant(static_cast<float>(count)));
    return next_mean(weights, last, mean);
  };
  map(
      0, size.rows, [&](Vector last, Vector sum) HWY_ATTR { return next(last, sum, size.columns); }, state.rows,
      state.rows_in, scratch.row_sums);
  const auto mean = static_cast<float>(total_of(state.rows, size.rows) / static_cast<double>(size.rows));
  map(
      0, size.rows, [&](Vector of_row) HWY_ATTR { return inverse_root(hn::Div(of_row, constant(mean))); },
      scratch.row_factors, state.rows);
  threads.parallel_for(size.columns, row_grain(size.blocks()), [&](int64_t begin, int64_t end, int) HWY_ATTR {
    float* const sums = scratch.column_sums;
    for (int64_t block = 1; block < size.blocks(); ++block) {
      map(
          begin, end, [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); }, sums, sums,
          sums + block * size.columns);
    }
    map(
        begin, end, [&](Vector last, Vector sum) HWY_ATTR { return next(last, sum, size.rows); }, state.columns,
        state.columns_in, sums);
    map(
        begin, end, [](Vector of_column) HWY_ATTR { return inverse_root(of_column); }, scratch.column_factors,
        state.columns);
  });
}

// Calls f(row, column, count) for every vector.
template <typename Function>
void for_each_row_vector(const MatrixSize& size, const Function& f, ThreadPool& threads) {
  threads.parallel_for(size.rows, row_grain(size.columns), [&](int64_t begin, int64_t end, int) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row)
      for_each_vector(size.columns, [&](int64_t j, int64_t count) HWY_ATTR { f(row, j, count); });
  });
}

// The gradients, clipped.
template <typename T>
struct Gradients {
  explicit Gradients(const KernelArgs& args, int64_t row_elems)
      : from(args.inputs[update_input::kGradient].as<T>()), columns(row_elems) {
    const TensorView& view = args.inputs[update_input::kClip];
    clip = constant(view.data ? *view.as<float>() : 1);
  }
  HWY_INLINE Vector operator()(int64_t row, int64_t column, int64_t count) const {
    return hn::Mul(load_lanes(from + row * columns + column, count), clip);
  }

  const T* from;
  int64_t columns;
  Vector clip;
};

// Gradients over the root of a mean of their squares, which is the scratch's factors or, for a vector, `squares`.
template <typename T, bool kFactored>
struct Direction {
  Gradients<T> gradients;
  MatrixScratch scratch;
  const float* squares;

  HWY_INLINE Vector operator()(int64_t row, int64_t j, int64_t count) const {
    const Vector g = gradients(row, j, count);
    if constexpr (kFactored) {
      const Vector of_column = load_lanes(scratch.column_factors + j, count);
      return hn::Mul(g, hn::Mul(constant(scratch.row_factors[row]), of_column));
    } else {
      return hn::Mul(g, inverse_root(load_lanes(squares + j, count)));
    }
  }
};

// Computes the next mean of squares of gradients, with eps, and returns the direction that follows from it.
template <bool kFactored, typename T>
Direction<T, kFactored> update_direction(const MatrixSize& size, const Gradients<T>& gradients, float eps,
                                         const MeanWeights& weights, const MeanSquares& state,
                                         const MatrixScratch& scratch, ThreadPool& threads) {
  const auto square = [&](int64_t row, int64_t j, int64_t count) HWY_ATTR {
    const Vector g = gradients(row, j, count);
    return hn::Add(hn::Mul(g, g), constant(eps));
  };
  if constexpr (kFactored) {
    update_factors(size, square, weights, state, scratch, threads);
  } else {
    for_each_row_vector(
        size,
        [&](int64_t row, int64_t j, int64_t count) HWY_ATTR {
          const Vector last = load_lanes(state.rows_in + j, count);
          store_lanes(next_mean(weights, last, square(row, j, count)), state.rows + j, count);
        },
        threads);
  }
  return {gradients, scratch, state.rows};
}

// Returns the sum of squares of f.
template <typename Function>
double sum_squares(const MatrixSize& size, const Function& f, const MatrixScratch& scratch, ThreadPool& threads) {
  const auto square = [&](int64_t row, int64_t j, int64_t count) HWY_ATTR {
    const Vector v = f(row, j, count);
    return hn::Mul(v, v);
  };
  return sum_matrix(size, square, scratch, threads);
}

// Writes p * decay - rate * f to the weight and its working copy.
template <int kStates, typename Function>
void move_weight(const MatrixSize& size, const UpdateViews<kStates>& views, float decay, float rate, const Function& f,
                 ThreadPool& threads) {
  for_each_row_vector(
      size,
      [&](int64_t row, int64_t j, int64_t count) HWY_ATTR {
        const int64_t at = row * size.columns + j;
        const Vector decayed = hn::Mul(load_lanes(views.p_in + at, count), constant(decay));
        const Vector p = hn::Sub(decayed, hn::Mul(constant(rate), f(row, j, count)));
        store_lanes(p, views.p + at, count);
        if (views.copy) store_lanes(p, views.copy + at, count);
      },
      threads);
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
