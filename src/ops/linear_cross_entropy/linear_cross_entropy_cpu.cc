#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear_cross_entropy/linear_cross_entropy_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/linear_cross_entropy/chunks.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct RowOutcome {
  float loss;          // -log softmax[label]
  int32_t is_correct;  // whether no other logit is larger
};

// Turns a row of logits into scale * (softmax - one_hot(label)), rounded to T and stored from the row's start. The
// narrower gradient never overtakes the logits that are still to be read.
template <typename T>
RowOutcome cross_entropy_row(float* logits, int64_t vocabulary, int32_t label, float scale, bool wants_gradient) {
  const Floats d;
  Vector largest = constant(-std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + lanes() <= vocabulary; i += lanes()) largest = hn::Max(largest, load(logits + i));
  float top = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < vocabulary; ++i) top = std::max(top, logits[i]);

  // Partial sums in f32, their total in f64: a long vocabulary would lose digits in one f32 sum.
  constexpr int64_t kPartVectors = 256;
  double total = 0;
  for (i = 0; i + lanes() <= vocabulary;) {
    const int64_t part_end = std::min(vocabulary, i + kPartVectors * lanes());
    Vector sums = zero();
    for (; i + lanes() <= part_end; i += lanes()) {
      sums = hn::Add(sums, hn::Exp(d, hn::Sub(load(logits + i), constant(top))));
    }
    total += hn::GetLane(hn::SumOfLanes(d, sums));
  }
  for (; i < vocabulary; ++i) total += std::exp(logits[i] - top);
  const float log_sum = top + static_cast<float>(std::log(total));
  const RowOutcome outcome{log_sum - logits[label], logits[label] >= top ? 1 : 0};
  if (!wants_gradient) return outcome;

  const float at_label = (std::exp(logits[label] - log_sum) - 1.0f) * scale;
  T* gradient = reinterpret_cast<T*>(logits);
  for (i = 0; i + lanes() <= vocabulary; i += lanes()) {
    const Vector e = hn::Exp(d, hn::Sub(load(logits + i), constant(log_sum)));
    store(hn::Mul(e, constant(scale)), gradient + i);
  }
  if (i < vocabulary) {
    const Vector e = hn::Exp(d, hn::Sub(load_some(logits + i, vocabulary - i), constant(log_sum)));
    store_some(hn::Mul(e, constant(scale)), gradient + i, vocabulary - i);
  }
  if constexpr (std::is_same_v<T, bf16>) {
    gradient[label] = to_bf16(at_label);
  } else {
    gradient[label] = at_label;
  }
  return outcome;
}

template <typename T>
class LossKernel {
 public:
  explicit LossKernel(const KernelArgs& args)
      : args_(args),
        x_(args.inputs[0]),
        w_(args.inputs[1]),
        tokens_(x_.shape[0]),
        width_(x_.shape[1]),
        vocabulary_(w_.shape[0]),
        gradients_(gradient_count(args.outputs.size())),
        layout_(x_.dtype, tokens_, width_, vocabulary_, gradients_, args.threads->threads()),
        rows_(at<int32_t>(layout_.rows)),
        losses_(at<float>(layout_.losses)),
        correct_(at<int32_t>(layout_.correct)) {}

  void run() {
    find_targets();
    if (gradients_ >= 1) zero(args_.outputs[2]);
    if (gradients_ >= 2 && targets_ == 0) zero(args_.outputs[3]);
    for (int64_t begin = 0; begin < targets_; begin += layout_.chunk_rows) {
      chunk(begin, std::min(layout_.chunk_rows, targets_ - begin));
    }
    double sum = 0;
    int32_t correct = 0;
    for (int64_t i = 0; i < targets_; ++i) {
      sum += losses_[i];
      correct += correct_[i];
    }
    *args_.outputs[1].as<int32_t>() = correct;
    *args_.outputs[0].as<float>() = static_cast<float>(sum * scale());
  }

 private:
  using Matrix = cpu::Matrix;

  template <typename U>
  U* at(int64_t offset) const {
    return reinterpret_cast<U*>(args_.workspace + offset);
  }
  float scale() const { return *args_.inputs[3].as<float>(); }

  static void zero(const TensorView& tensor) { std::memset(tensor.data, 0, static_cast<size_t>(tensor.bytes())); }

  void find_targets() {
    const auto* labels = args_.inputs[2].as<int32_t>();
    for (int64_t token = 0; token < tokens_; ++token) {
      if (labels[token] >= 0) rows_[targets_++] = static_cast<int32_t>(token);
    }
  }

  void chunk(int64_t begin, int64_t count) {
    T* hidden = at<T>(layout_.hidden);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(hidden + i * width_, x_.as<T>() + rows_[begin + i] * width_, static_cast<size_t>(width_) * sizeof(T));
    }
    auto* logits = at<float>(layout_.logits);
    multiply({count, vocabulary_, width_, false, true}, {hidden, x_.dtype, width_}, {w_.data, w_.dtype, width_}, logits,
             DType::kF32, vocabulary_, false);
    const auto* labels = args_.inputs[2].as<int32_t>();
    args_.threads->parallel_for(count, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t row = begin + i;
        const RowOutcome outcome =
            cross_entropy_row<T>(logits + i * vocabulary_, vocabulary_, labels[rows_[row]], scale(), gradients_ > 0);
        losses_[row] = outcome.loss;
        correct_[row] = outcome.is_correct;
      }
    });
    // The gradient rows keep the distance of the f32 logits.
    const Matrix gradient{logits, x_.dtype, vocabulary_ * size_of(DType::kF32) / size_of(x_.dtype)};
    if (gradients_ >= 1) input_gradient(begin, count, gradient);
    if (gradients_ >= 2) {
      multiply({vocabulary_, width_, count, true, false}, gradient, {hidden, x_.dtype, width_},
               args_.outputs[3].as<float>(), DType::kF32, width_, begin > 0);
    }
  }

  void input_gradient(int64_t begin, int64_t count, const Matrix& gradient) {
    T* result = at<T>(layout_.hidden_gradient);
    multiply({count, width_, vocabulary_, false, false}, gradient, {w_.data, w_.dtype, width_}, result, x_.dtype,
             width_, false);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(args_.outputs[2].as<T>() + rows_[begin + i] * width_, result + i * width_,
                  static_cast<size_t>(width_) * sizeof(T));
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
  const TensorView &x_, &w_;
  int64_t tokens_, width_, vocabulary_;
  int gradients_;
  LossWorkspace layout_;
  int32_t* rows_;
  float* losses_;
  int32_t* correct_;
  int64_t targets_ = 0;
};

void linear_cross_entropy(const KernelArgs& args) {
  with_real(args.inputs[0].dtype, [&]<typename T>(T*) { LossKernel<T>(args).run(); });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(linear_cross_entropy);
void linear_cross_entropy_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(linear_cross_entropy)(args); }
}  // namespace spillway::ops
#endif
