// The operands of selective scans, the sizes that their kernels go by, and the memory that these work in.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/kernel.h"
#include "base/math.h"
#include "ops/optimizers/either_side.h"
#include "ops/sequence_chunks.h"

namespace spillway::ops {

namespace selective_scan_op {
// selective_scan has the first six, its gradient all of them; the gradient's outputs are those of the first five.
enum Input : int { kX, kSteps, kRates, kB, kC, kSeqOffsets, kDy };
}  // namespace selective_scan_op

namespace cached_selective_scan_op {
// The first five are those of selective_scan.
enum Input : int { kX, kSteps, kRates, kB, kC, kState, kSlots, kPositions };
}  // namespace cached_selective_scan_op

struct ScanSizes {
  int64_t tokens, channels, state;  // rows of x, its columns, and the numbers of a channel's state

  ScanSizes(const Shape& x, const Shape& rates) : tokens(x[0]), channels(x[1]), state(rates[1]) {}
  explicit ScanSizes(const KernelArgs& args)
      : ScanSizes(args.inputs[selective_scan_op::kX].shape, args.inputs[selective_scan_op::kRates].shape) {}

  // Returns the floats of the states between chunks, [chunk, N, D], that the gradient keeps.
  [[nodiscard]] int64_t kept_floats() const { return tokens / kSequenceChunk * state * channels; }
  // Returns the floats of the sums over so many blocks of channels that become db and dc: [block, T, 2 N].
  [[nodiscard]] int64_t partial_floats(int64_t blocks) const { return blocks * tokens * 2 * state; }
};

// The operands of a stream; those of the gradient are null forward.
template <typename T>
struct ScanStream {
  const T *x, *steps, *b, *c;
  const float* rates;
  const T* dy;
  T *dx, *dsteps;
  float* kept;     // states between chunks
  float* partial;  // of db and dc

  explicit ScanStream(const KernelArgs& args)
      : x(args.inputs[selective_scan_op::kX].as<T>()),
        steps(args.inputs[selective_scan_op::kSteps].as<T>()),
        b(args.inputs[selective_scan_op::kB].as<T>()),
        c(args.inputs[selective_scan_op::kC].as<T>()),
        rates(args.inputs[selective_scan_op::kRates].as<float>()),
        dy(nullptr),
        dx(nullptr),
        dsteps(nullptr),
        kept(nullptr),
        partial(nullptr) {}
  // Makes that of the gradient, whose workspace begins with the states that it keeps.
  ScanStream(const KernelArgs& args, const ScanSizes& sizes) : ScanStream(args) {
    dy = args.inputs[selective_scan_op::kDy].as<T>();
    dx = args.outputs[selective_scan_op::kX].as<T>();
    dsteps = args.outputs[selective_scan_op::kSteps].as<T>();
    kept = reinterpret_cast<float*>(args.workspace);
    partial = kept + sizes.kept_floats();
  }
};

// The numbers of a column of channels in scratch memory: number i stands at at + i * stride.
struct ScanNumbers {
  float* at;
  int64_t stride;

  [[nodiscard]] SPILLWAY_EITHER_SIDE float* operator[](int64_t i) const { return at + i * stride; }
};

// The scratch of a column: a few neighbouring channels that are computed together.
struct ScanScratch {
  ScanNumbers rates, state;  // [N]
  // The gradient alone needs these: of states [N], and of the tokens of a chunk [kSequenceChunk, N].
  ScanNumbers dstate, drates;
  ScanNumbers decays, states;

  // Divides `memory`, in which neighbouring columns may be interleaved by the stride.
  SPILLWAY_EITHER_SIDE ScanScratch(int64_t state_size, float* memory, int64_t stride) {
    int64_t taken = 0;
    const auto take = [&](int64_t count) {
      const ScanNumbers numbers{memory + taken * stride, stride};
      taken += count;
      return numbers;
    };
    rates = take(state_size);
    state = take(state_size);
    dstate = take(state_size);
    drates = take(state_size);
    decays = take(kSequenceChunk * state_size);
    states = take(kSequenceChunk * state_size);
  }
  // Returns how many numbers that are.
  [[nodiscard]] static int64_t numbers(int64_t state_size, bool has_gradient) {
    return (has_gradient ? 4 + 2 * kSequenceChunk : 2) * state_size;
  }
};

}  // namespace spillway::ops
