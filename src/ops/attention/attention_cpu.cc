#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_cpu.cc"
#include <hwy/foreach_target.h>

#include <utility>

#include "ops/attention/attention_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// What token t sees: its own sequence, from the window's edge to itself.
struct SequenceRanges {
  const int32_t* offsets;
  int64_t count, window;

  KeyRange operator()(int64_t token) const {
    const int64_t start = *(std::upper_bound(offsets, offsets + count, token) - 1);
    return {window > 0 ? std::max(start, token - window + 1) : start, token + 1};
  }
};

SequenceRanges sequence_ranges(const KernelArgs& args) {
  const TensorView& offsets = args.inputs[3];
  return {offsets.as<int32_t>(), offsets.shape[0], args.attributes.integer("sliding_window")};
}

void attention(const KernelArgs& args) {
  with_real(args.inputs[0].dtype, [&]<typename T>(T*) {
    attend<T>(args, args.inputs[1], args.inputs[2], sequence_ranges(args), args.outputs[1].as<float>());
  });
}

// The backward pass. With scores s = scale q k', weights p = exp(s - lse) and delta = sum(do * o) of a row:
// ds = p * (do v' - delta), dq = scale ds k, dk = scale ds' q, dv = p' do. Weights are computed once for dq, by tiles
// of queries, and once for dk and dv, by tiles of keys, so that no two threads add to the same place.
template <typename T>
struct Gradient {
  const KernelArgs& args;
  AttentionSizes sizes;
  SequenceRanges range_of;
  float scale;
  int64_t tokens;
  const T *q, *k, *v, *cotangent;
  const float *lse, *delta;

  struct Tiles {
    float *queries, *cotangents, *sums, *more_sums, *keys, *keys_transposed, *values_transposed, *weights, *slopes;
    float *lse, *delta;
  };

  [[nodiscard]] Tiles tiles(float* at) const {
    const auto take = [&at](int64_t floats) { return std::exchange(at, at + floats); };
    const int64_t rows = sizes.tile_rows, width = sizes.width;
    Tiles t{};
    for (float** tile : {&t.queries, &t.cotangents}) *tile = take(rows * width);
    for (float** tile : {&t.sums, &t.more_sums}) *tile = take(std::max(rows, kTileKeys) * width);
    for (float** tile : {&t.keys, &t.keys_transposed, &t.values_transposed}) *tile = take(kTileKeys * width);
    for (float** tile : {&t.weights, &t.slopes}) *tile = take(rows * kTileKeys);
    for (float** numbers : {&t.lse, &t.delta}) *numbers = take(rows);
    return t;
  }

  void load_key_tile(const Tiles& t, int64_t head, int64_t begin, int64_t end) const {
    load_keys(sizes, v, head, begin, end, t.keys);
    transpose_keys(sizes, t.keys, t.values_transposed);
    load_keys(sizes, k, head, begin, end, t.keys);
    transpose_keys(sizes, t.keys, t.keys_transposed);
  }

  void load_query_tile(const Tiles& t, int64_t head, int64_t begin, int64_t end) const {
    load_queries(sizes, q, head, begin, end, scale, t.queries);
    load_queries(sizes, cotangent, head, begin, end, 1, t.cotangents);
    for (int64_t row = 0; row < (end - begin) * sizes.group; ++row) {
      const int64_t at = (begin + row / sizes.group) * sizes.heads + head * sizes.group + row % sizes.group;
      t.lse[row] = lse[at];
      t.delta[row] = delta[at];
    }
  }

  // Weights p and slopes ds of the loaded queries [begin, end) and keys.
  void weigh(const Tiles& t, int64_t begin, int64_t end, int64_t key) const {
    const int64_t rows = (end - begin) * sizes.group;
    for (float* tile : {t.weights, t.slopes}) std::fill(tile, tile + sizes.tile_rows * kTileKeys, 0.0f);
    add_product(sizes.tile_rows, kTileKeys, sizes.head_size, {t.queries, sizes.width, 1}, t.keys_transposed, t.weights);
    add_product(sizes.tile_rows, kTileKeys, sizes.head_size, {t.cotangents, sizes.width, 1}, t.values_transposed,
                t.slopes);
    mask_scores(sizes, range_of, begin, end, key, t.weights);
    for (int64_t row = 0; row < rows; ++row) {
      float *weights = t.weights + row * kTileKeys, *slopes = t.slopes + row * kTileKeys;
      for (int64_t i = 0; i < kTileKeys; i += lanes()) {
        const Vector p = hn::Exp(Floats(), hn::Sub(load(weights + i), constant(t.lse[row])));
        store(p, weights + i);
        store(hn::Mul(p, hn::Sub(load(slopes + i), constant(t.delta[row]))), slopes + i);
      }
    }
  }

  void query_tile(int64_t head, int64_t begin, int64_t end, float* workspace) const {
    const Tiles t = tiles(workspace);
    load_query_tile(t, head, begin, end);
    std::fill(t.sums, t.sums + sizes.tile_rows * sizes.width, 0.0f);
    for (int64_t key = range_of(begin).begin; key < end; key += kTileKeys) {
      const int64_t key_end = std::min(end, key + kTileKeys);
      load_key_tile(t, head, key, key_end);
      weigh(t, begin, end, key);
      add_product(sizes.tile_rows, sizes.width, key_end - key, {t.slopes, kTileKeys, 1}, t.keys, t.sums);
    }
    store_queries(
        sizes, t.sums, head, begin, end, [&](int64_t) { return scale; }, args.outputs[0].as<T>());
  }

  void key_tile(int64_t head, int64_t key, int64_t key_end, float* workspace) const {
    const Tiles t = tiles(workspace);
    load_key_tile(t, head, key, key_end);
    for (float* sums : {t.sums, t.more_sums}) std::fill(sums, sums + kTileKeys * sizes.width, 0.0f);
    for (int64_t begin = key; begin < tokens && range_of(begin).begin < key_end; begin += sizes.tile_tokens) {
      const int64_t end = std::min(tokens, begin + sizes.tile_tokens), rows = (end - begin) * sizes.group;
      load_query_tile(t, head, begin, end);
      weigh(t, begin, end, key);
      add_product(kTileKeys, sizes.width, rows, {t.slopes, 1, kTileKeys}, t.queries, t.sums);
      add_product(kTileKeys, sizes.width, rows, {t.weights, 1, kTileKeys}, t.cotangents, t.more_sums);
    }
    const auto copy = [](Vector x) HWY_ATTR { return x; };
    for (int64_t row = 0; row < key_end - key; ++row) {
      const int64_t at = ((key + row) * sizes.kv_heads + head) * sizes.head_size;
      map(0, sizes.head_size, copy, args.outputs[1].as<T>() + at, t.sums + row * sizes.width);
      map(0, sizes.head_size, copy, args.outputs[2].as<T>() + at, t.more_sums + row * sizes.width);
    }
  }
};

// delta [T, H], the sum of do * o over each head.
template <typename T>
void sum_products(const KernelArgs& args, const AttentionSizes& sizes, float* delta) {
  const T *o = args.inputs[4].as<T>(), *cotangent = args.inputs[6].as<T>();
  const auto product = [](Vector a, Vector b) HWY_ATTR { return hn::Mul(a, b); };
  args.threads->parallel_for(args.inputs[0].shape[0] * sizes.heads, row_grain(sizes.head_size),
                             [&](int64_t begin, int64_t end, int) {
                               for (int64_t i = begin; i < end; ++i) {
                                 const int64_t at = i * sizes.head_size;
                                 delta[i] = sum(sizes.head_size, product, o + at, cotangent + at);
                               }
                             });
}

template <typename T>
void attention_grad_of(const KernelArgs& args) {
  const AttentionSizes sizes(args.attributes);
  const int64_t tokens = args.inputs[0].shape[0];
  auto* scratch = reinterpret_cast<float*>(args.workspace);
  float* delta = scratch + args.threads->threads() * sizes.thread_floats();
  sum_products<T>(args, sizes, delta);

  const Gradient<T> gradient{args,
                             sizes,
                             sequence_ranges(args),
                             static_cast<float>(args.attributes.real("scale")),
                             tokens,
                             args.inputs[0].as<T>(),
                             args.inputs[1].as<T>(),
                             args.inputs[2].as<T>(),
                             args.inputs[6].as<T>(),
                             args.inputs[5].as<float>(),
                             delta};
  const auto for_each_tile = [&](int64_t tile, auto&& body) {
    args.threads->parallel_for(div_ceil(tokens, tile) * sizes.kv_heads, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t first = item / sizes.kv_heads * tile;
        body(item % sizes.kv_heads, first, std::min(tokens, first + tile), scratch + thread * sizes.thread_floats());
      }
    });
  };
  for_each_tile(sizes.tile_tokens, [&](int64_t head, int64_t begin, int64_t end, float* workspace) {
    gradient.query_tile(head, begin, end, workspace);
  });
  for_each_tile(kTileKeys, [&](int64_t head, int64_t begin, int64_t end, float* workspace) {
    gradient.key_tile(head, begin, end, workspace);
  });
}

void attention_grad(const KernelArgs& args) {
  with_real(args.inputs[0].dtype, [&]<typename T>(T*) { attention_grad_of<T>(args); });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(attention);
HWY_EXPORT(attention_grad);
void attention_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(attention)(args); }
void attention_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(attention_grad)(args); }
}  // namespace spillway::ops
#endif
