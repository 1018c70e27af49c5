#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gated_delta_rule/gated_delta_rule_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/gated_delta_rule/chunk-inl.h"
#include "ops/gated_delta_rule/operands.h"
#include "ops/gated_delta_rule/scratch.h"
#include "ops/memory.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// One thread. Columns past the end of a row are those of whole vectors: they are computed, and nobody reads them.
struct DeltaThread {
  template <typename Function>
  void each(int64_t n, const Function& f) {
    for (int64_t i = 0; i < n; ++i) f(i);
  }

  void product(int64_t m, int64_t n, int64_t p, const DeltaFactor& a, const DeltaPlane& b, const DeltaPlane& c,
               bool adds) {
    constexpr int kRows = 4;
    int64_t i = 0;
    for (; i + kRows <= m; i += kRows) product_rows<kRows>(i, n, p, a, b, c, adds);
    for (; i < m; ++i) product_rows<1>(i, n, p, a, b, c, adds);
  }

  void solve(int64_t n, int64_t p, const DeltaPlane& l, const DeltaPlane& w) {
    for (int64_t t = 1; t < n; ++t)
      for (int64_t c = 0; c < p; c += lanes()) subtract(l.plain(), t, 0, t, w, c);
  }
  void solve_transposed(int64_t n, int64_t p, const DeltaPlane& l, const DeltaPlane& w) {
    for (int64_t t = n; t-- > 0;)
      for (int64_t c = 0; c < p; c += lanes()) subtract(l.transposed(), t, t + 1, n, w, c);
  }

  template <typename T>
  static void store(float value, T* to) {
    store_some(constant(value), to, 1);
  }

 private:
  // Computes rows [i, i + kRows) of a product, two vectors of columns at a time.
  template <int kRows>
  static void product_rows(int64_t i, int64_t n, int64_t p, const DeltaFactor& a, const DeltaPlane& b,
                           const DeltaPlane& c, bool adds) {
    int64_t column = 0;
    for (; column + lanes() < p; column += 2 * lanes()) product_tile<kRows, 2>(i, n, a, b, c, column, adds);
    if (column < p) product_tile<kRows, 1>(i, n, a, b, c, column, adds);
  }

  template <int kRows, int kVectors>
  static void product_tile(int64_t i, int64_t n, const DeltaFactor& a, const DeltaPlane& b, const DeltaPlane& c,
                           int64_t column, bool adds) {
    Vector sums[kRows][kVectors];
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) sums[r][v] = adds ? load(&c(i + r, column + v * lanes())) : zero();
    for (int64_t j = 0; j < n; ++j) {
      Vector row[kVectors];
      for (int v = 0; v < kVectors; ++v) row[v] = load(&b(j, column + v * lanes()));
      for (int r = 0; r < kRows; ++r) {
        const Vector left = constant(a(i + r, j));
        for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(left, row[v], sums[r][v]);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) put(sums[r][v], &c(i + r, column + v * lanes()));
  }
  static void put(Vector v, float* to) { HWY_NAMESPACE::store(v, to); }

  // Computes w[t] -= the sum over j in [begin, end) of l[t, j] w[j], for a vector of columns.
  static void subtract(const DeltaFactor& l, int64_t t, int64_t begin, int64_t end, const DeltaPlane& w, int64_t c) {
    Vector sum = load(&w(t, c));
    for (int64_t j = begin; j < end; ++j) sum = hn::NegMulAdd(constant(l(t, j)), load(&w(j, c)), sum);
    put(sum, &w(t, c));
  }
};

// Calls f(sequence, head, memory) for all heads of all sequences, with a thread's scratch.
template <typename Function>
void for_delta_heads(const KernelArgs& args, int64_t heads, int64_t sequences, int64_t floats, float* memory,
                     const Function& f) {
  args.threads->parallel_for(heads * sequences, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t unit = begin; unit < end; ++unit) f(unit / heads, unit % heads, memory + thread * floats);
  });
}

template <typename T>
DeltaStream<T> delta_stream(const KernelArgs& args) {
  using namespace gated_delta_rule_op;
  return {.qkv = args.inputs[kQkv].as<T>(),
          .decay = args.inputs[kDecay].as<float>(),
          .beta = args.inputs[kBeta].as<float>()};
}

void gated_delta_rule(const KernelArgs& args) {
  using namespace gated_delta_rule_op;
  const TensorView& qkv = args.inputs[kQkv];
  const DeltaSizes sizes(args.attributes);
  const DeltaSequences sequences(args.inputs[kSeqOffsets], qkv.shape[0]);
  const int64_t floats = DeltaScratch(sizes, nullptr, false).floats;
  with_real(qkv.dtype, [&]<typename T>(T*) {
    const DeltaStream<T> stream = delta_stream<T>(args);
    for_delta_heads(args, sizes.value_heads, sequences.count, floats, reinterpret_cast<float*>(args.workspace),
                    [&](int64_t sequence, int64_t head, float* memory) {
                      DeltaThread team;
                      delta_forward(team, sizes, stream, sequences, sequence, head, memory, args.outputs[0].as<T>());
                    });
  });
}

void gated_delta_rule_grad(const KernelArgs& args) {
  using namespace gated_delta_rule_op;
  const TensorView& qkv = args.inputs[kQkv];
  const DeltaSizes sizes(args.attributes);
  const DeltaSequences sequences(args.inputs[kSeqOffsets], qkv.shape[0]);
  const int64_t floats = DeltaScratch(sizes, nullptr, true).floats;
  auto* const states = reinterpret_cast<float*>(args.workspace);
  float* const scratch = states + kept_state_floats(sizes, qkv.shape[0]);
  with_real(qkv.dtype, [&]<typename T>(T*) {
    DeltaStream<T> stream = delta_stream<T>(args);
    stream.dy = args.inputs[kDy].as<T>();
    stream.dqkv = args.outputs[0].as<T>();
    stream.ddecay = args.outputs[1].as<float>();
    stream.dbeta = args.outputs[2].as<float>();
    stream.states = states;
    for_delta_heads(args, sizes.key_heads, sequences.count, floats, scratch,
                    [&](int64_t sequence, int64_t head, float* memory) {
                      DeltaThread team;
                      DeltaGradient<DeltaThread, T>(team, sizes, stream, sequences, sequence, head, memory).compute();
                    });
  });
}

// Loads `count` numbers as f32, divided by the root of the sum of their squares, times `scale`.
template <typename T>
void load_normalised(const T* from, int64_t count, float scale, float* to) {
  const float squares = sum(
      count, [](Vector v) HWY_ATTR { return hn::Mul(v, v); }, from);
  const float factor = scale / std::sqrt(squares + kDeltaEps);
  map(
      0, count, [factor](Vector v) HWY_ATTR { return hn::Mul(v, constant(factor)); }, to, from);
}

// A token's step of a value head: its state is [key_dim, value_dim]. `memory`: recurrence_floats().
template <typename T>
void delta_step(const DeltaSizes& sizes, const T* qkv, float decay, float beta, int64_t head, float* state,
                float* memory, T* y) {
  const int64_t keys = sizes.key_dim, values = sizes.value_dim, key_head = head / sizes.group();
  float *const q = memory, *const k = q + sizes.key_width(), *const w = k + sizes.key_width(),
               *const read = w + sizes.value_width();
  const auto as_it_is = [](Vector v) HWY_ATTR { return v; };
  if (sizes.corrects) {
    load_normalised(qkv + sizes.query_at(key_head), keys, 1 / std::sqrt(static_cast<float>(keys)), q);
    load_normalised(qkv + sizes.key_at(key_head), keys, 1.0f, k);
  } else {
    map(0, keys, as_it_is, q, qkv + sizes.query_at(key_head));
    map(0, keys, as_it_is, k, qkv + sizes.key_at(key_head));
  }
  const float factor = std::exp(decay);
  std::fill(w, w + values, 0.0f);
  std::fill(read, read + values, 0.0f);
  for (int64_t i = 0; i < keys; ++i) {
    float* const row = state + i * values;
    map(
        0, values, [factor](Vector s) HWY_ATTR { return hn::Mul(s, constant(factor)); }, row, row);
    if (!sizes.corrects) continue;
    map(
        0, values, [&](Vector s, Vector p) HWY_ATTR { return hn::MulAdd(s, constant(k[i]), p); }, w, row, w);
  }
  const auto corrected = [beta](Vector v, Vector p) HWY_ATTR { return hn::Mul(constant(beta), hn::Sub(v, p)); };
  map(0, values, corrected, w, qkv + sizes.value_at(head), w);
  for (int64_t i = 0; i < keys; ++i) {
    float* const row = state + i * values;
    map(
        0, values, [&](Vector s, Vector c) HWY_ATTR { return hn::MulAdd(c, constant(k[i]), s); }, row, row, w);
    map(
        0, values, [&](Vector s, Vector r) HWY_ATTR { return hn::MulAdd(s, constant(q[i]), r); }, read, row, read);
  }
  map(0, values, as_it_is, y, read);
}

void cached_gated_delta_rule(const KernelArgs& args) {
  using namespace cached_gated_delta_rule_op;
  const TensorView &qkv = args.inputs[kQkv], &state = args.outputs[1];
  const DeltaSizes sizes(args.attributes);
  const int64_t tokens = qkv.shape[0], heads = sizes.value_heads, size = sizes.key_dim * sizes.value_dim;
  const auto *slots = args.inputs[kSlots].as<int32_t>(), *positions = args.inputs[kPositions].as<int32_t>();
  copy_tensor(args.inputs[kState], state, *args.threads);
  with_real(qkv.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(heads, 1, [&](int64_t begin, int64_t end, int thread) {
      float* const memory = reinterpret_cast<float*>(args.workspace) + thread * recurrence_floats(sizes);
      for (int64_t at = begin * tokens; at < end * tokens; ++at) {
        const int64_t head = at / tokens, t = at % tokens;
        SPILLWAY_CHECK(slots[t] >= 0 && slots[t] < state.shape[0], "state {} of {}", slots[t], state.shape[0]);
        float* const own = state.as<float>() + (slots[t] * heads + head) * size;
        if (positions[t] == 0) std::fill(own, own + size, 0.0f);
        delta_step(sizes, qkv.as<T>() + t * sizes.columns(), args.inputs[kDecay].as<float>()[t * heads + head],
                   args.inputs[kBeta].as<float>()[t * heads + head], head, own, memory,
                   args.outputs[0].as<T>() + (t * heads + head) * sizes.value_dim);
      }
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(gated_delta_rule);
HWY_EXPORT(gated_delta_rule_grad);
HWY_EXPORT(cached_gated_delta_rule);
void gated_delta_rule_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(gated_delta_rule)(args); }
void gated_delta_rule_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(gated_delta_rule_grad)(args); }
void cached_gated_delta_rule_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(cached_gated_delta_rule)(args); }
}  // namespace spillway::ops
#endif
