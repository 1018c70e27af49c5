// The loop over chunks of logits (logits/chunks.h) on the CPU, for any function of a row; compiled once for each
// instruction set.
#if defined(SPILLWAY_OPS_CHUNKED_LOGITS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_CHUNKED_LOGITS_INL_H
#undef SPILLWAY_OPS_CHUNKED_LOGITS_INL_H
#else
#define SPILLWAY_OPS_CHUNKED_LOGITS_INL_H
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backend/kernel.h"
#include "base/sizes.h"
#include "ops/logits/chunks.h"
#include "ops/logits/logit_cap.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct LogitOperands {
  const TensorView& x;             // [T, D]
  const TensorView& w;             // [V, D]
  const TensorView& labels;        // i32 [T]; rows with a negative label are left out
  const TensorView* dx = nullptr;  // like x
  const TensorView* dw = nullptr;  // f32, like w
};

template <typename T>
class ChunkedLogits {
 public:
  ChunkedLogits(const KernelArgs& args, const LogitOperands& operands)
      : args_(args),
        o_(operands),
        shape_{o_.x.dtype, o_.x.shape[0], o_.x.shape[1], o_.w.shape[0], o_.dx != nullptr, o_.dw != nullptr},
        layout_(shape_, args.threads->threads()),
        rows_(at<int32_t>(layout_.rows)) {
    const auto* labels = o_.labels.as<int32_t>();
    for (int64_t token = 0; token < shape_.tokens; ++token) {
      if (labels[token] >= 0) rows_[targets_++] = static_cast<int32_t>(token);
    }
  }

  [[nodiscard]] int64_t targets() const { return targets_; }
  [[nodiscard]] const LogitShape& shape() const { return shape_; }
  template <typename U>
  [[nodiscard]] U* at(int64_t offset) const {
    return reinterpret_cast<U*>(args_.workspace + offset);
  }

  // Calls row(logits, target, token) for each row, where `target` counts those with a label. If a gradient is wanted,
  // the call overwrites the row of logits with their gradient, rounded to T and stored from the row's start.
  template <typename Row>
  void run(const Row& row) {
    run(row, [](int64_t, int64_t) {});
  }
  // The same with prepare(begin, count) before each chunk of targets.
  template <typename Row, typename Prepare>
  void run(const Row& row, const Prepare& prepare) {
    if (o_.dx) zero(*o_.dx);
    if (o_.dw && targets_ == 0) zero(*o_.dw);
    for (int64_t begin = 0; begin < targets_; begin += layout_.chunk_rows) {
      const int64_t count = std::min(layout_.chunk_rows, targets_ - begin);
      prepare(begin, count);
      chunk(begin, count, row);
    }
  }

  // Returns the logits of targets [begin, begin + count), f32 [count, V], valid until the next call. REQUIRES: they are
  // a chunk of run().
  float* logits(int64_t begin, int64_t count) {
    const int64_t width = shape_.width, vocabulary = shape_.vocabulary;
    T* hidden = at<T>(layout_.hidden);
    for (int64_t i = 0; i < count; ++i) {
      copy_elems(hidden + i * width, o_.x.as<T>() + rows_[begin + i] * width, width);
    }
    auto* logits = at<float>(layout_.logits);
    multiply({count, vocabulary, width, false, true}, {hidden, shape_.dtype, width}, {o_.w.data, shape_.dtype, width},
             logits, DType::kF32, vocabulary, false);
    return logits;
  }

 private:
  using Matrix = cpu::Matrix;

  static void zero(const TensorView& tensor) { fill_memory(tensor.data, 0, tensor.bytes()); }

  template <typename Row>
  void chunk(int64_t begin, int64_t count, const Row& row) {
    const int64_t width = shape_.width, vocabulary = shape_.vocabulary;
    T* hidden = at<T>(layout_.hidden);
    float* logits = this->logits(begin, count);
    args_.threads->parallel_for(count, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) row(logits + i * vocabulary, begin + i, int64_t{rows_[begin + i]});
    });
    // The gradient rows keep the distance of the f32 logits.
    const Matrix gradient{logits, shape_.dtype, vocabulary * size_of(DType::kF32) / size_of(shape_.dtype)};
    if (o_.dx) input_gradient(begin, count, gradient);
    if (o_.dw) {
      multiply({vocabulary, width, count, true, false}, gradient, {hidden, shape_.dtype, width}, o_.dw->as<float>(),
               DType::kF32, width, begin > 0);
    }
  }

  void input_gradient(int64_t begin, int64_t count, const Matrix& gradient) {
    const int64_t width = shape_.width;
    T* result = at<T>(layout_.hidden_gradient);
    multiply({count, width, shape_.vocabulary, false, false}, gradient, {o_.w.data, shape_.dtype, width}, result,
             shape_.dtype, width, false);
    for (int64_t i = 0; i < count; ++i) {
      copy_elems(o_.dx->as<T>() + rows_[begin + i] * width, result + i * width, width);
    }
  }

  void multiply(const cpu::MatmulShape& shape, const Matrix& a, const Matrix& b, void* c, DType dtype, int64_t stride,
                bool accumulate) {
    cpu::matmul({.shape = shape,
                 .a = a,
                 .b = b,
                 .c = c,
                 .c_dtype = dtype,
                 .c_stride = stride,
                 .addend = accumulate ? c : nullptr,
                 .addend_dtype = dtype,
                 .addend_stride = stride},
                args_.workspace + layout_.matmul, *args_.threads);
  }

  const KernelArgs& args_;
  LogitOperands o_;
  LogitShape shape_;
  LogitWorkspace layout_;
  int32_t* rows_;
  int64_t targets_ = 0;
};

template <typename T>
HWY_INLINE T from_float(float value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

HWY_INLINE void cap_row(float* logits, int64_t count, const LogitCap& of) {
  if (of.cap == 0) return;
  const auto capped = [&](Vector logit) HWY_ATTR {
    return hn::Mul(constant(of.cap), hn::Tanh(Floats(), hn::Mul(logit, constant(of.inverse()))));
  };
  map(0, count, capped, logits, logits);
}

// Returns the slope of the cap at a capped logit; through_cap() returns it times a gradient.
HWY_INLINE float cap_slope(float logit, float inverse_cap) {
  const float part = logit * inverse_cap;
  return 1 - part * part;
}
HWY_INLINE Vector through_cap(Vector gradient, Vector logit, float inverse_cap) {
  const Vector part = hn::Mul(logit, constant(inverse_cap));
  return hn::Mul(gradient, hn::NegMulAdd(part, part, constant(1)));
}

// The logarithm of a sum of exponentials, and its two terms.
struct LogSum {
  float largest;
  double total;  // of exp(logit - largest)
  [[nodiscard]] float value() const { return largest + static_cast<float>(std::log(total)); }
};

HWY_INLINE float largest_of(const float* logits, int64_t count) {
  Vector largest = constant(-std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) largest = hn::Max(largest, load(logits + i));
  float top = hn::GetLane(hn::MaxOfLanes(Floats(), largest));
  for (; i < count; ++i) top = std::max(top, logits[i]);
  return top;
}

// Computes several sums over a row in one pass: add(vector of logits, sums) and, for the last few, add_one(logit,
// totals). Partial sums are f32, their totals f64: a long vocabulary would lose digits in one f32 sum.
template <size_t kSums, typename Add, typename AddOne>
HWY_INLINE std::array<double, kSums> sums_of(const float* logits, int64_t count, const Add& add,
                                             const AddOne& add_one) {
  constexpr int64_t kPartVectors = 256;
  std::array<double, kSums> totals{};
  int64_t i = 0;
  while (i + lanes() <= count) {
    const int64_t part_end = std::min(count, i + kPartVectors * lanes());
    Vector sums[kSums];
    for (Vector& sum : sums) sum = zero();
    for (; i + lanes() <= part_end; i += lanes()) add(load(logits + i), sums);
    for (size_t k = 0; k < kSums; ++k) totals[k] += hn::GetLane(hn::SumOfLanes(Floats(), sums[k]));
  }
  for (; i < count; ++i) add_one(logits[i], totals);
  return totals;
}

// Computes one sum, of vector_form(vector of logits) and of its scalar form for the last few.
template <typename VectorForm, typename ScalarForm>
HWY_INLINE double sum_of(const float* logits, int64_t count, const VectorForm& vector_form,
                         const ScalarForm& scalar_form) {
  return sums_of<1>(
      logits, count, [&](Vector v, Vector* sums) HWY_ATTR { sums[0] = hn::Add(sums[0], vector_form(v)); },
      [&](float v, std::array<double, 1>& totals) { totals[0] += scalar_form(v); })[0];
}

HWY_INLINE LogSum log_sum_of(const float* logits, int64_t count) {
  const float top = largest_of(logits, count);
  const double total = sum_of(
      logits, count, [&](Vector v) HWY_ATTR { return exp_of(hn::Sub(v, constant(top))); },
      [&](float v) { return std::exp(v - top); });
  return {top, total};
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
