// The scans are bound by their exponentials, one for each number of a channel's state. Columns are vectors of channels.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/selective_scan/selective_scan_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "base/error.h"
#include "ops/memory.h"
#include "ops/selective_scan/blocks.h"
#include "ops/selective_scan/operands.h"
#include "ops/selective_scan/scan-inl.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// The channels [first, first + count), at most a vector of them. Lanes past the end are computed as those of zeros.
struct VectorColumn {
  int64_t first, count;
  float* sums = nullptr;  // [T, 2 N]: db and dc over the channels of a block
  int64_t state = 0;

  template <typename U>
  [[nodiscard]] HWY_INLINE Number take(const U* row) const {
    return load_first(row + first, count);
  }
  template <typename U>
  HWY_INLINE void put(Number number, U* row) const {
    store_first(number.v, row + first, count);
  }
  [[nodiscard]] Number take_turned(const float* rows, int64_t n, int64_t i) const {
    float numbers[kMaxLanes] = {};
    for (int64_t lane = 0; lane < count; ++lane) numbers[lane] = rows[(first + lane) * n + i];
    return load(numbers);
  }
  void put_turned(Number number, float* rows, int64_t n, int64_t i) const {
    float numbers[kMaxLanes] = {};
    store(number.v, numbers);
    for (int64_t lane = 0; lane < count; ++lane) rows[(first + lane) * n + i] = numbers[lane];
  }
  [[nodiscard]] HWY_INLINE Number get(const float* at) const { return load(at); }
  HWY_INLINE void set(Number number, float* at) const { store(number.v, at); }

  HWY_INLINE void add(int64_t token, int64_t i, Number db, Number dc) const {
    float* const of_token = sums + token * 2 * state;
    of_token[i] += hn::GetLane(hn::SumOfLanes(Floats(), db.v));
    of_token[state + i] += hn::GetLane(hn::SumOfLanes(Floats(), dc.v));
  }
  void end_token(int64_t) const {}
};

// Calls f(column) for the columns of a block.
template <typename Function>
void for_columns(const ScanSizes& sizes, int64_t block, const Function& f) {
  const int64_t width = scan_block_channels(sizes.channels), end = std::min(sizes.channels, (block + 1) * width);
  for (int64_t first = block * width; first < end; first += lanes())
    f(VectorColumn{.first = first, .count = std::min(lanes(), end - first), .state = sizes.state});
}

void selective_scan(const KernelArgs& args) {
  const ScanSizes sizes(args);
  const ChunkedSequences sequences(args.inputs[selective_scan_op::kSeqOffsets], sizes.tokens);
  const int64_t blocks = scan_blocks(sizes.channels), floats = scan_thread_floats(sizes, false);
  with_real(args.inputs[selective_scan_op::kX].dtype, [&]<typename T>(T*) {
    const ScanStream<T> stream(args);
    args.threads->parallel_for(blocks * sequences.count, 1, [&](int64_t begin, int64_t end, int thread) {
      const ScanScratch scratch(sizes.state, reinterpret_cast<float*>(args.workspace) + thread * floats, kScanLanes);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t sequence = unit / blocks;
        if (sequences.begin(sequence) == sequences.end(sequence)) continue;
        for_columns(sizes, unit % blocks, [&](VectorColumn column) {
          ColumnScan<VectorColumn, T>(column, sizes, stream, scratch)
              .forward(sequences.begin(sequence), sequences.end(sequence), args.outputs[0].as<T>());
        });
      }
    });
  });
}

// Writes db and dc of tokens [begin, end): the sums of the blocks' sums.
template <typename T>
void write_token_gradients(const KernelArgs& args, const ScanSizes& sizes, const float* partial, int64_t begin,
                           int64_t end) {
  const int64_t blocks = scan_blocks(sizes.channels), width = 2 * sizes.state;
  for (int64_t at = begin * width; at < end * width; ++at) {
    float sum = 0;
    for (int64_t block = 0; block < blocks; ++block) sum += partial[block * sizes.tokens * width + at];
    const int64_t token = at / width, i = at % width;
    const bool is_c = i >= sizes.state;
    T* const to = args.outputs[is_c ? selective_scan_op::kC : selective_scan_op::kB].as<T>();
    store_some(constant(sum), to + token * sizes.state + i - (is_c ? sizes.state : 0), 1);
  }
}

void selective_scan_grad(const KernelArgs& args) {
  const ScanSizes sizes(args);
  const ChunkedSequences sequences(args.inputs[selective_scan_op::kSeqOffsets], sizes.tokens);
  const int64_t blocks = scan_blocks(sizes.channels), floats = scan_thread_floats(sizes, true);
  const int64_t of_block = sizes.partial_floats(1);
  with_real(args.inputs[selective_scan_op::kX].dtype, [&]<typename T>(T*) {
    const ScanStream<T> stream(args, sizes);
    float* const memory = stream.partial + blocks * of_block;
    args.threads->parallel_for(blocks, 1, [&](int64_t begin, int64_t end, int thread) {
      const ScanScratch scratch(sizes.state, memory + thread * floats, kScanLanes);
      for (int64_t block = begin; block < end; ++block) {
        float* const sums = stream.partial + block * of_block;
        std::fill(sums, sums + of_block, 0.0f);
        for_columns(sizes, block, [&](VectorColumn column) {
          column.sums = sums;
          ColumnScan<VectorColumn, T>(column, sizes, stream, scratch)
              .gradient(sequences, args.outputs[selective_scan_op::kRates].as<float>());
        });
      }
    });
    args.threads->parallel_for(sizes.tokens, row_grain(2 * sizes.state * blocks), [&](int64_t begin, int64_t end, int) {
      write_token_gradients<T>(args, sizes, stream.partial, begin, end);
    });
  });
}

void cached_selective_scan(const KernelArgs& args) {
  using namespace cached_selective_scan_op;
  const ScanSizes sizes(args);
  const TensorView& state = args.outputs[1];
  const auto *slots = args.inputs[kSlots].as<int32_t>(), *positions = args.inputs[kPositions].as<int32_t>();
  const int64_t floats = scan_thread_floats(sizes, false);
  copy_tensor(args.inputs[kState], state, *args.threads);
  with_real(args.inputs[selective_scan_op::kX].dtype, [&]<typename T>(T*) {
    const ScanStream<T> stream(args);
    args.threads->parallel_for(scan_blocks(sizes.channels), 1, [&](int64_t begin, int64_t end, int thread) {
      const ScanScratch scratch(sizes.state, reinterpret_cast<float*>(args.workspace) + thread * floats, kScanLanes);
      for (int64_t block = begin; block < end; ++block)
        for_columns(sizes, block, [&](VectorColumn column) {
          ColumnScan<VectorColumn, T> scan(column, sizes, stream, scratch);
          for (int64_t t = 0; t < sizes.tokens; ++t) {
            SPILLWAY_CHECK(slots[t] >= 0 && slots[t] < state.shape[0], "state {} of {}", slots[t], state.shape[0]);
            scan.step(t, positions[t] == 0, state.as<float>() + slots[t] * sizes.state * sizes.channels,
                      args.outputs[0].as<T>());
          }
        });
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(selective_scan);
HWY_EXPORT(selective_scan_grad);
HWY_EXPORT(cached_selective_scan);
void selective_scan_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(selective_scan)(args); }
void selective_scan_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(selective_scan_grad)(args); }
void cached_selective_scan_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(cached_selective_scan)(args); }
}  // namespace spillway::ops
#endif
