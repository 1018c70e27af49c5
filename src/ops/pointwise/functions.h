// The functions of pointwise.h for one number, in f64, and the kernels that apply one to tensors: the same on the CPU
// and on a GPU. A function is made from its operation's attributes.
#pragma once

#include <cmath>

#include "backend/kernel.h"
#include "ops/optimizers/either_side.h"
#include "ops/optional_kernel.h"

namespace spillway::ops::pointwise {

// The functions of one number.
struct Affine {
  double factor, constant;
  explicit Affine(const Attributes& a) : factor(a.real("factor")), constant(a.real("constant")) {}
  SPILLWAY_EITHER_SIDE double operator()(double x) const { return factor * x + constant; }
};
// The smaller of a number and a limit; NaN stays NaN.
struct MinWith {
  double limit;
  explicit MinWith(const Attributes& a) : limit(a.real("limit")) {}
  SPILLWAY_EITHER_SIDE double operator()(double x) const { return x > limit ? limit : x; }
};
struct MaxWith {
  double limit;
  explicit MaxWith(const Attributes& a) : limit(a.real("limit")) {}
  SPILLWAY_EITHER_SIDE double operator()(double x) const { return x < limit ? limit : x; }
};
struct Relu {
  explicit Relu(const Attributes&) {}
  SPILLWAY_EITHER_SIDE double operator()(double x) const { return x < 0 ? 0 : x; }
};
struct Exp {
  explicit Exp(const Attributes&) {}
  SPILLWAY_EITHER_SIDE double operator()(double x) const { return std::exp(x); }
};
struct Log {
  explicit Log(const Attributes&) {}
  SPILLWAY_EITHER_SIDE double operator()(double x) const { return std::log(x); }
};
struct Sigmoid {
  explicit Sigmoid(const Attributes&) {}
  SPILLWAY_EITHER_SIDE double operator()(double x) const { return 1 / (1 + std::exp(-x)); }
};
struct LogSigmoid {
  explicit LogSigmoid(const Attributes&) {}
  SPILLWAY_EITHER_SIDE double operator()(double x) const {
    return (x < 0 ? x : 0) - std::log1p(std::exp(-std::fabs(x)));
  }
};
struct Log1mExp {
  explicit Log1mExp(const Attributes&) {}
  SPILLWAY_EITHER_SIDE double operator()(double x) const {
    constexpr double kMinusLog2 = -0.6931471805599453;
    return x > kMinusLog2 ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x));
  }
};
struct Square {
  explicit Square(const Attributes&) {}
  SPILLWAY_EITHER_SIDE double operator()(double x) const { return x * x; }
};
struct SoftCap {
  double cap;
  explicit SoftCap(const Attributes& a) : cap(a.real("cap")) {}
  SPILLWAY_EITHER_SIDE double operator()(double x) const { return cap * std::tanh(x / cap); }
};
struct Same {
  explicit Same(const Attributes&) {}
  SPILLWAY_EITHER_SIDE double operator()(double x) const { return x; }
};

// The functions of two numbers.
struct Sub {
  explicit Sub(const Attributes&) {}
  SPILLWAY_EITHER_SIDE double operator()(double x, double y) const { return x - y; }
};
struct Mul {
  explicit Mul(const Attributes&) {}
  SPILLWAY_EITHER_SIDE double operator()(double x, double y) const { return x * y; }
};
struct Div {
  explicit Div(const Attributes&) {}
  SPILLWAY_EITHER_SIDE double operator()(double x, double y) const { return x / y; }
};
// NaN if either is.
struct Max {
  explicit Max(const Attributes&) {}
  SPILLWAY_EITHER_SIDE double operator()(double x, double y) const { return x < y || y != y ? y : x; }
};
struct WhereBelow {
  double limit;
  explicit WhereBelow(const Attributes& a) : limit(a.real("limit")) {}
  SPILLWAY_EITHER_SIDE double operator()(double x, double y) const { return y <= limit ? x : 0; }
};
struct WhereAbove {
  double limit;
  explicit WhereAbove(const Attributes& a) : limit(a.real("limit")) {}
  SPILLWAY_EITHER_SIDE double operator()(double x, double y) const { return y >= limit ? x : 0; }
};

// The operands of a kernel: a second one of one number stands for all.
struct Operands {
  const float *x, *y;
  float* out;
  int64_t elems, y_step;

  explicit Operands(const KernelArgs& args)
      : x(args.inputs[0].as<float>()),
        y(args.inputs.size() > 1 ? args.inputs[1].as<float>() : nullptr),
        out(args.outputs[0].as<float>()),
        elems(args.inputs[0].elems()),
        y_step(y != nullptr && args.inputs[1].elems() > 1 ? 1 : 0) {}

  template <typename F>
  SPILLWAY_EITHER_SIDE void apply(const F& f, int64_t i) const {
    if constexpr (requires { f(1.0, 1.0); }) {
      out[i] = static_cast<float>(f(double{x[i]}, double{y[i * y_step]}));
    } else {
      out[i] = static_cast<float>(f(double{x[i]}));
    }
  }
};

// Instantiated for each function in pointwise_cpu.cc and pointwise_cuda.cu, by SPILLWAY_POINTWISE_KERNELS.
template <typename F>
void run_cpu(const KernelArgs& args);
template <typename F>
SPILLWAY_OPTIONAL_KERNEL void run_cuda(const KernelArgs& args);

// NOLINTBEGIN(bugprone-macro-parentheses): a template has no parentheses around its name.
#define SPILLWAY_POINTWISE_KERNELS(run)                  \
  template void run<Affine>(const KernelArgs& args);     \
  template void run<MinWith>(const KernelArgs& args);    \
  template void run<MaxWith>(const KernelArgs& args);    \
  template void run<Relu>(const KernelArgs& args);       \
  template void run<Exp>(const KernelArgs& args);        \
  template void run<Log>(const KernelArgs& args);        \
  template void run<Sigmoid>(const KernelArgs& args);    \
  template void run<LogSigmoid>(const KernelArgs& args); \
  template void run<Log1mExp>(const KernelArgs& args);   \
  template void run<Square>(const KernelArgs& args);     \
  template void run<SoftCap>(const KernelArgs& args);    \
  template void run<Same>(const KernelArgs& args);       \
  template void run<Sub>(const KernelArgs& args);        \
  template void run<Max>(const KernelArgs& args);        \
  template void run<Mul>(const KernelArgs& args);        \
  template void run<Div>(const KernelArgs& args);        \
  template void run<WhereBelow>(const KernelArgs& args); \
  template void run<WhereAbove>(const KernelArgs& args)
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace spillway::ops::pointwise
