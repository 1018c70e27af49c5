// The header of an optimizer's formula includes this: numbers, the inputs of a step, and SPILLWAY_UPDATE_KERNEL, which
// makes the kernels of every device from one line. See docs/add-an-optimizer.md.
//
// A formula is the numbers of a step, in f32, with the function that moves one element:
//
//   struct SignFormula {
//     static constexpr int kStates = 1;          // of its state
//     static constexpr bool kMadeOnce = false;   // true: a GPU makes it by one thread, since that takes f64
//     struct Options {                           // made on the host
//       explicit Options(const Attributes& a);
//     };
//     SPILLWAY_EITHER_SIDE SignFormula(const Options& options, const StepInputs& step);
//     // Returns the next weight of a weight, its clipped gradient, and its states, of which it leaves the next ones.
//     SPILLWAY_NUMBER_FUNCTION Number operator()(Number p, Number g, Number* state) const;
//   };
#if defined(SPILLWAY_OPS_OPTIMIZERS_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_OPTIMIZERS_FORMULA_INL_H
#undef SPILLWAY_OPS_OPTIMIZERS_FORMULA_INL_H
#else
#define SPILLWAY_OPS_OPTIMIZERS_FORMULA_INL_H
#endif

#include "ops/number-inl.h"
#include "ops/optimizers/update.h"
#include "ops/optional_kernel.h"

// SPILLWAY_UPDATE_KERNEL(lion, run_update<LionFormula>(args)) makes the kernels lion_cpu and lion_cuda of an operation
// in formulas_cpu.cc and formulas_cuda.cu; elsewhere it declares them.
#undef SPILLWAY_UPDATE_KERNEL
#ifdef HWY_TARGET_INCLUDE
#define SPILLWAY_UPDATE_KERNEL_OF_TARGET(name, ...)  \
  SPILLWAY_FORMULAS_BEGIN                            \
  void name(const KernelArgs& args) { __VA_ARGS__; } \
  SPILLWAY_FORMULAS_END
#if HWY_ONCE
#define SPILLWAY_UPDATE_KERNEL(name, ...)                                       \
  SPILLWAY_UPDATE_KERNEL_OF_TARGET(name, __VA_ARGS__)                           \
  namespace spillway::ops {                                                     \
  HWY_EXPORT(name);                                                             \
  void name##_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(name)(args); } \
  }
#else
#define SPILLWAY_UPDATE_KERNEL SPILLWAY_UPDATE_KERNEL_OF_TARGET
#endif
#elif defined(SPILLWAY_MAKES_UPDATES_FOR_CUDA)
#define SPILLWAY_UPDATE_KERNEL(name, ...)                   \
  namespace spillway::ops {                                 \
  void name##_cuda(const KernelArgs& args) { __VA_ARGS__; } \
  }
#else
#define SPILLWAY_UPDATE_KERNEL(name, ...)                            \
  namespace spillway::ops {                                          \
  void name##_cpu(const KernelArgs& args);                           \
  SPILLWAY_OPTIONAL_KERNEL void name##_cuda(const KernelArgs& args); \
  }
#endif

#endif  // per-target include guard
