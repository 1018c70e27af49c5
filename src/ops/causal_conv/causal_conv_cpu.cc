#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/causal_conv/causal_conv_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <array>

#include "ops/causal_conv/causal_conv.h"
#include "ops/causal_conv/operands.h"
#include "ops/column_sums.h"
#include "ops/memory.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// The taps of all channels, f32 [K, C], a token's own first; behind them the bias, or zeros.
struct Taps {
  float* rows;
  int64_t taps, channels;

  // Fills the beginning of the workspace.
  explicit Taps(const KernelArgs& args)
      : rows(reinterpret_cast<float*>(args.workspace)),
        taps(args.inputs[causal_conv_op::kWeight].shape[1]),
        channels(args.inputs[causal_conv_op::kWeight].shape[0]) {
    const TensorView &weight = args.inputs[causal_conv_op::kWeight], &bias = args.inputs[causal_conv_op::kBias];
    args.threads->parallel_for(channels, row_grain(taps), [&](int64_t begin, int64_t end, int) {
      with_real(weight.dtype, [&]<typename W>(W*) {
        const W *from = weight.as<W>(), *shift = bias.as<W>();
        for (int64_t c = begin; c < end; ++c) {
          for (int64_t j = 0; j < taps; ++j) rows[j * channels + c] = to_float(from[c * taps + taps - 1 - j]);
          rows[taps * channels + c] = shift == nullptr ? 0 : to_float(shift[c]);
        }
      });
    });
  }

  [[nodiscard]] const float* of(int64_t back) const { return rows + back * channels; }
  [[nodiscard]] const float* bias() const { return of(taps); }
  [[nodiscard]] int64_t floats() const { return (taps + 1) * channels; }
};

// Rows of tokens, for a sum over them.
template <typename T>
using TokenRows = std::array<const T*, kMaxTaps>;

// Computes out = first + the sum of the taps' products with `count` rows, in their order; `first` may be null.
template <typename T>
HWY_INLINE void convolve(const Taps& taps, const TokenRows<T>& rows, int32_t count, const float* first, T* out) {
  for (int64_t c = 0; c < taps.channels; c += lanes()) {
    const int64_t some = std::min(lanes(), taps.channels - c);
    Vector sum = first == nullptr ? zero() : load_first(first + c, some);
    for (int32_t j = 0; j < count; ++j)
      sum = hn::MulAdd(load_first(taps.of(j) + c, some), load_first(rows[static_cast<size_t>(j)] + c, some), sum);
    store_first(sum, out + c, some);
  }
}

// Returns the rows of `count` tokens from this one on, each `step` tokens behind the one before it.
template <typename T>
HWY_INLINE TokenRows<T> rows_from(const T* x, int64_t token, int64_t step, int32_t count, int64_t channels) {
  TokenRows<T> rows{};
  for (int32_t j = 0; j < count; ++j) rows[static_cast<size_t>(j)] = x + (token + j * step) * channels;
  return rows;
}

void causal_conv(const KernelArgs& args) {
  using namespace causal_conv_op;
  const TensorView& x = args.inputs[kX];
  const Taps taps(args);
  const ConvTokens tokens(args.inputs[kSeqOffsets], x, taps.taps);
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(x.shape[0], row_grain(taps.channels), [&](int64_t begin, int64_t end, int) {
      for (int64_t token = begin; token < end; ++token) {
        const int32_t count = tokens.before(token);
        convolve(taps, rows_from(x.as<T>(), token, -1, count, taps.channels), count, taps.bias(),
                 args.outputs[0].as<T>() + token * taps.channels);
      }
    });
  });
}

// Adds a token's part of dw, f32 [K, C], and of db behind it to `sums`.
template <typename T>
HWY_INLINE void add_weight_gradients(const TokenRows<T>& x, int32_t count, const T* dy, const Taps& taps, float* sums) {
  const auto more = [](Vector sum, Vector v, Vector d) HWY_ATTR { return hn::MulAdd(v, d, sum); };
  for (int32_t j = 0; j < count; ++j) {
    float* const to = sums + j * taps.channels;
    map(0, taps.channels, more, to, to, x[static_cast<size_t>(j)], dy);
  }
  float* const to = sums + taps.taps * taps.channels;
  map(
      0, taps.channels, [](Vector sum, Vector d) HWY_ATTR { return hn::Add(sum, d); }, to, to, dy);
}

// Adds up the blocks' sums for channels [begin, end) in the first block.
inline void add_conv_blocks(float* sums, int64_t blocks, const Taps& taps, int64_t begin, int64_t end) {
  for (int64_t j = 0; j <= taps.taps; ++j) {
    float* const to = sums + j * taps.channels;
    if (blocks == 0) std::fill(to + begin, to + end, 0.0f);
    for (int64_t block = 1; block < blocks; ++block) {
      map(
          begin, end, [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); }, to, to, to + block * taps.floats());
    }
  }
}

// Writes addend + sums, the gradient of channels [begin, end), of which each has `count` numbers: those of channel c
// are sums[c], sums[c + stride], ... from the last number to the first.
inline void write_gradient(const float* sums, int64_t stride, int64_t count, const TensorView& addend,
                           const TensorView& out, int64_t begin, int64_t end) {
  with_real(out.dtype, [&]<typename G>(G*) {
    for (int64_t c = begin; c < end; ++c) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = c * count + i;
        const float sum = sums[(count - 1 - i) * stride + c];
        store_some(constant(addend.data == nullptr ? sum : to_float(addend.as<G>()[at]) + sum), out.as<G>() + at, 1);
      }
    }
  });
}

template <typename T>
void conv_grad_rows(const KernelArgs& args, const Taps& taps, int64_t begin, int64_t end, float* sums) {
  using namespace causal_conv_op;
  const TensorView &x = args.inputs[kX], &dy = args.inputs[kDy];
  const int64_t channels = taps.channels;
  const ConvTokens tokens(args.inputs[kSeqOffsets], x, taps.taps);
  if (sums != nullptr) std::fill(sums, sums + taps.floats(), 0.0f);
  for (int64_t token = begin; token < end; ++token) {
    const int32_t behind = tokens.behind(token), before = tokens.before(token);
    convolve(taps, rows_from(dy.as<T>(), token, 1, behind, channels), behind, nullptr,
             args.outputs[0].as<T>() + token * channels);
    if (sums == nullptr) continue;
    add_weight_gradients(rows_from(x.as<T>(), token, -1, before, channels), before, dy.as<T>() + token * channels, taps,
                         sums);
  }
}

void causal_conv_grad(const KernelArgs& args) {
  using namespace causal_conv_op;
  const TensorView& x = args.inputs[kX];
  const Taps taps(args);
  const bool has_sums = args.outputs.size() > 1;
  float* const sums = taps.rows + taps.floats();
  const int64_t rows = x.shape[0], block_rows = rows_of_block(rows), blocks = div_ceil(rows, block_rows);
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(blocks, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t block = begin; block < end; ++block)
        conv_grad_rows<T>(args, taps, block * block_rows, std::min(rows, (block + 1) * block_rows),
                          has_sums ? sums + block * taps.floats() : nullptr);
    });
  });
  if (!has_sums) return;
  args.threads->parallel_for(taps.channels, row_grain(blocks * taps.taps), [&](int64_t begin, int64_t end, int) {
    add_conv_blocks(sums, blocks, taps, begin, end);
    write_gradient(sums, taps.channels, taps.taps, args.inputs[kWeightAddend], args.outputs[1], begin, end);
    if (args.outputs.size() > 2)
      write_gradient(sums + taps.taps * taps.channels, 0, 1, args.inputs[kBiasAddend], args.outputs[2], begin, end);
  });
}

void cached_causal_conv(const KernelArgs& args) {
  using namespace cached_causal_conv_op;
  const TensorView &x = args.inputs[kX], &state = args.outputs[1];
  const Taps taps(args);
  const CachedConvTokens tokens(args);
  const int64_t channels = taps.channels;
  copy_tensor(args.inputs[kState], state, *args.threads);
  with_real(x.dtype, [&]<typename T>(T*) {
    const auto for_tokens = [&](const auto& body) {
      args.threads->parallel_for(x.shape[0], row_grain(channels), [&](int64_t begin, int64_t end, int) {
        for (int64_t token = begin; token < end; ++token) body(token);
      });
    };
    for_tokens([&](int64_t token) {
      const int32_t count = tokens.before(token);
      TokenRows<T> rows{};
      for (int32_t j = 0; j < count; ++j)
        rows[static_cast<size_t>(j)] = tokens.is_in_stream(token, j) ? x.as<T>() + (token - j) * channels
                                                                     : state.as<T>() + tokens.part(token, j) * channels;
      convolve(taps, rows, count, taps.bias(), args.outputs[0].as<T>() + token * channels);
    });
    for_tokens([&](int64_t token) {
      if (tokens.stays(token))
        std::copy_n(x.as<T>() + token * channels, channels, state.as<T>() + tokens.part(token, 0) * channels);
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(causal_conv);
HWY_EXPORT(causal_conv_grad);
HWY_EXPORT(cached_causal_conv);
void causal_conv_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(causal_conv)(args); }
void causal_conv_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(causal_conv_grad)(args); }
void cached_causal_conv_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(cached_causal_conv)(args); }
}  // namespace spillway::ops
#endif
