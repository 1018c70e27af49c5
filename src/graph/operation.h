// The description of an operation, in one place: types, gradient, cost, workspace, in-place rules and kernels.
//
// An OpDef is a constant; a builder function in src/ops/<op>/ appends a node that points to it. There is no registry
// and no central switch: whatever a graph can name is linked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace spillway {

struct CollectiveArgs;  // dist/collective.h
struct KernelArgs;      // backend/kernel.h
class VjpContext;       // graph/autodiff.h
struct TensorView;      // tensor/view.h

// The types of an operation's operands; a pointer is null if an optional input is absent.
using TypeList = std::span<const ValueType* const>;

// The cost of one execution at the given types: arithmetic, and bytes moved if nothing stays in a cache.
struct Cost {
  double flops = 0;
  double bytes = 0;
  bool matrix_product = false;  // the flops run at the matrix rate of the machine; else bytes are what counts
  bool in_f32 = false;          // at its f32 rate, whatever type the data has
  double sent_bytes = 0;        // of a collective: the most that a rank sends to others, or gets from them
};

// An output that may take the place of an input which no operation reads afterwards. The kernel must be correct whether
// or not the two share memory; sharing is whole (same offset, same bytes) or not at all.
struct InPlace {
  int8_t output;
  int8_t input;
};

// The device that a kernel is written for.
enum class DeviceKind : uint8_t { kCpu, kCuda };
// Returns "cpu" or "cuda".
[[nodiscard]] std::string_view name_of(DeviceKind kind);

using KernelFunction = void (*)(const KernelArgs& args);
using CollectiveFunction = void (*)(const CollectiveArgs& args);

// The outputs of an operation on several ranks.
enum class Held : uint8_t {
  kAsInputs,  // parts, if it works on parts (Value::split), else the same on all ranks
  kPart,      // parts of whole inputs
  kWhole,     // whole, of parts
  kOwn,       // neither: each rank has rows of its own, as where ranks share sequences
};

// The condition of an operation that reads the weights of an expert only where some token has reached that expert.
struct Guard {
  int8_t offsets = -1;  // the input i32 [E + 1] that says where the rows of each expert begin
  int32_t index = 0;    // of the expert: the operation reads if offsets[index] < offsets[index + 1]
  double chance = 1;    // of that, if each token chooses its experts at random
};

// The cost class of recomputing an output: plans and `selective_checkpointing` tell these apart.
enum class RecomputeCost : uint8_t { kElementwise, kProduct, kAttention };

struct OpDef {
  std::string_view name;

  // Returns the types of the outputs. Throws InputError `[name] expected X, got Y` if the inputs do not fit together.
  std::vector<ValueType> (*infer)(TypeList inputs, const Attributes& attributes) = nullptr;

  // Appends the operations that carry cotangents of outputs to inputs; they read only values that they name as inputs,
  // so lifetimes need no special case. Null: not differentiable.
  void (*vjp)(VjpContext& context) = nullptr;

  // If set, gradients treat the outputs as constants: none flows back to the inputs from here. It needs no vjp.
  bool stops_gradients = false;

  Cost (*cost)(TypeList inputs, TypeList outputs, const Attributes& attributes) = nullptr;

  // Returns the bytes of scratch that the kernel gets, for types with all tokens and this many threads. Null: none. A
  // size that suffices for T tokens must suffice for any smaller number.
  int64_t (*workspace_bytes)(TypeList inputs, TypeList outputs, const Attributes& attributes, int threads) = nullptr;

  // Returns the scratch of the CUDA kernel; null if it equals the CPU's with one thread. It must look at nothing but
  // its arguments and be defined in X.cc, since machines without a GPU call it, too, to plan for one elsewhere.
  int64_t (*cuda_workspace_bytes)(TypeList inputs, TypeList outputs, const Attributes& attributes) = nullptr;

  std::vector<InPlace> in_place = {};

  RecomputeCost recompute_cost = RecomputeCost::kElementwise;

  // The input from which the operation reads only some rows: a table that may stay in host memory while the host looks
  // up the rows. -1: none.
  int8_t table_input = -1;

  // The first of the two inputs through which a second product may join the operation's sums (ops/matmul); -1: none.
  int8_t tail_input = -1;

  // Returns the condition under which the kernels read an input; nullopt if they always do. Null: they always read all.
  // Loads of an input with a condition may be left out where it is not met: then the kernels find undefined bytes
  // there.
  std::optional<Guard> (*guard)(TypeList inputs, const Attributes& attributes, int input) = nullptr;

  // Fills an integer output as a run would: its numbers are indices, which decide what the kernels that read them
  // touch, and these are also timed without a run. `inputs` are the operation's types, with the rows that `view` has.
  // Null: no output holds indices.
  void (*fill_indices)(TypeList inputs, const Attributes& attributes, int output, const TensorView& view) = nullptr;

  // Kernels must not allocate or synchronise; equal inputs give equal bits. Null: not available on that device.
  KernelFunction cpu = nullptr;
  KernelFunction cuda = nullptr;

  // In place of kernels for a collective: all ranks of a job execute it together, on the lane `peer`, and collectives
  // in the order of the graph.
  CollectiveFunction collective = nullptr;
  Held held = Held::kAsInputs;

  [[nodiscard]] KernelFunction kernel(DeviceKind kind) const { return kind == DeviceKind::kCpu ? cpu : cuda; }
};

// Returns true unless it is a collective that must run exactly once: others may run again, in the same place on all
// ranks.
[[nodiscard]] bool may_run_again(const OpDef& def);

// Returns true if a plan may run it on the host while the device is another one: updates, and lookups in a table.
[[nodiscard]] bool may_run_on_host(const Graph& graph, OpId id);
// Returns the cost of operation `id` with all tokens.
[[nodiscard]] Cost cost_of(const Graph& graph, OpId id);
// Returns the condition under which operation `id` reads an input, by its index; nullopt if it always does.
[[nodiscard]] std::optional<Guard> guard_of(const Graph& graph, OpId id, int input);
// Returns the scratch of its kernel for a kind of device, in bytes; `threads` are the CPU's.
[[nodiscard]] int64_t workspace_of(const Graph& graph, OpId id, int threads, DeviceKind kind = DeviceKind::kCpu);

}  // namespace spillway
