// The description of an operation, in one place: types, gradient, cost, workspace, in-place rules and kernels.
//
// An OpDef is a constant; a builder function in src/ops/<op>/ appends a node that points to it. There is no registry
// and no central switch: whatever a graph can name is linked.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace spillway {

struct KernelArgs;  // backend/kernel.h
class VjpContext;   // graph/autodiff.h

// The types of an operation's operands; a null pointer where an optional input is absent.
using TypeList = std::span<const ValueType* const>;

// What one execution costs at the given types: arithmetic, and bytes moved if nothing stays in a cache.
struct Cost {
  double flops = 0;
  double bytes = 0;
  bool matrix_product = false;  // the flops run at the matrix rate of the machine; else bytes are what counts
  bool in_f32 = false;          // at its f32 rate, whatever type the data has
};

// An output that may take the place of an input which nobody reads afterwards. The kernel must be correct whether or
// not the two share memory; sharing is whole (same offset, same bytes) or not at all.
struct InPlace {
  int8_t output;
  int8_t input;
};

// What kernels are written for.
enum class DeviceKind : uint8_t { kCpu, kCuda };
// "cpu", "cuda"
[[nodiscard]] std::string_view name_of(DeviceKind kind);

using KernelFunction = void (*)(const KernelArgs& args);

// What computing an output again is like: what plans, and `selective_checkpointing`, tell apart.
enum class RecomputeCost : uint8_t { kElementwise, kProduct, kAttention };

struct OpDef {
  std::string_view name;

  // The types of the outputs. Throws InputError `[name] expected X, got Y` where the inputs do not fit together.
  std::vector<ValueType> (*infer)(TypeList inputs, const Attributes& attributes) = nullptr;

  // Appends the operations that carry cotangents of outputs to inputs; they read only values that they name as inputs,
  // so lifetimes need no special case. Null: not differentiable.
  void (*vjp)(VjpContext& context) = nullptr;

  // Gradients take the outputs to be constants: what led to the inputs gets none from here. It needs no vjp.
  bool stops_gradients = false;

  Cost (*cost)(TypeList inputs, TypeList outputs, const Attributes& attributes) = nullptr;

  // Scratch that the kernel is granted, for the types with all tokens and this many threads. Null: none. What fits T
  // tokens fits any smaller number.
  int64_t (*workspace_bytes)(TypeList inputs, TypeList outputs, const Attributes& attributes, int threads) = nullptr;

  // The same for the CUDA kernel, where it needs other scratch than the CPU's with one thread. It is asked without a
  // GPU, too, to plan for one that is elsewhere: so it stands in X.cc and looks at nothing but its arguments.
  int64_t (*cuda_workspace_bytes)(TypeList inputs, TypeList outputs, const Attributes& attributes) = nullptr;

  std::vector<InPlace> in_place = {};

  RecomputeCost recompute_cost = RecomputeCost::kElementwise;

  // The input of which it reads no more than some rows: a table that may stay in host memory while the host looks up
  // what is asked for. -1: none.
  int8_t table_input = -1;

  // Kernels never allocate and never synchronise; equal inputs give equal bits. Null: not available on that device.
  KernelFunction cpu = nullptr;
  KernelFunction cuda = nullptr;

  [[nodiscard]] KernelFunction kernel(DeviceKind kind) const { return kind == DeviceKind::kCpu ? cpu : cuda; }
};

// Whether a plan may have the host run it where the device is another: updates, and what looks up a table.
[[nodiscard]] bool may_run_on_host(const Graph& graph, OpId id);
// What operation `id` costs with all tokens.
[[nodiscard]] Cost cost_of(const Graph& graph, OpId id);
// The scratch of its kernel for a kind of device, in bytes; `threads` are the CPU's.
[[nodiscard]] int64_t workspace_of(const Graph& graph, OpId id, int threads, DeviceKind kind = DeviceKind::kCpu);

}  // namespace spillway
