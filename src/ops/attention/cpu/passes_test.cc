#include "ops/attention/cpu/passes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/index.h"
#include "base/random.h"
#include "ops/matmul/cpu/kernels.h"

namespace spillway::cpu {
namespace {

// A matrix [rows, columns], dense, f32 or bf16.
struct Tensor {
  Tensor(int64_t rows_, int64_t columns_, DType dtype_, uint64_t stream, float fill = 0)
      : rows(rows_), columns(columns_), dtype(dtype_), bytes(static_cast<size_t>(rows * columns * size_of(dtype))) {
    RandomStream random(5, stream);
    for (int64_t i = 0; i < rows * columns; ++i) set(i, stream == 0 ? fill : 2 * random.uniform() - 1);
  }
  void set(int64_t i, float value) {
    if (dtype == DType::kF32) {
      reinterpret_cast<float*>(bytes.data())[i] = value;
    } else {
      reinterpret_cast<bf16*>(bytes.data())[i] = to_bf16(value);
    }
  }
  [[nodiscard]] double at(int64_t row, int64_t column) const {
    const int64_t i = row * columns + column;
    return dtype == DType::kF32 ? reinterpret_cast<const float*>(bytes.data())[i]
                                : to_float(reinterpret_cast<const bf16*>(bytes.data())[i]);
  }
  [[nodiscard]] void* data() { return bytes.data(); }

  int64_t rows, columns;
  DType dtype;
  std::vector<std::byte> bytes;
};

struct Setting {
  std::vector<int32_t> offsets;
  int64_t tokens, heads, kv_heads, head_size;
  int64_t window = 0;
  DType dtype = DType::kF32;
  bool is_causal = true;
  std::vector<int32_t> key_offsets = {};  // set if keys are of another stream
  int64_t key_tokens = 0;
  bool trains = true;  // otherwise there is no lse, and no gradient

  [[nodiscard]] int64_t key_rows() const { return key_offsets.empty() ? tokens : key_tokens; }
};

// The ways in which the best kernels of this CPU multiply.
struct Way {
  DType dtype;
  Bf16Path path;
};
std::vector<Way> ways() {
  std::vector<Way> result = {{DType::kF32, Bf16Path::kWidenToF32}, {DType::kBF16, Bf16Path::kWidenToF32}};
  if (has_native_bf16_dot()) result.push_back({DType::kBF16, Bf16Path::kNativeDot});
  return result;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Inputs and, after run(), the results of both passes.
struct Attention {
  explicit Attention(const Setting& s)
      : setting(s),
        q(s.tokens, s.heads * s.head_size, s.dtype, 1),
        k(s.key_rows(), s.kv_heads * s.head_size, s.dtype, 2),
        v(s.key_rows(), s.kv_heads * s.head_size, s.dtype, 3),
        d_o(s.tokens, s.heads * s.head_size, s.dtype, 4),
        o(s.tokens, s.heads * s.head_size, s.dtype, 0, kNan),
        dq(s.tokens, s.heads * s.head_size, s.dtype, 0, kNan),
        dk(s.key_rows(), s.kv_heads * s.head_size, s.dtype, 0, kNan),
        dv(s.key_rows(), s.kv_heads * s.head_size, s.dtype, 0, kNan),
        lse(s.tokens, s.heads, DType::kF32, 0, kNan) {}

  void run(const MatmulKernels& kernels, int threads, Bf16Path path = Bf16Path::kWidenToF32,
           BackwardItems items = BackwardItems::kTiles) {
    AttentionGradArgs grad;
    AttentionArgs& args = grad.forward;
    args.tokens = setting.tokens;
    args.heads = setting.heads;
    args.kv_heads = setting.kv_heads;
    args.head_size = setting.head_size;
    args.seq_offsets = setting.offsets.data();
    args.sequences = static_cast<int64_t>(setting.offsets.size()) - 1;
    args.is_causal = setting.is_causal;
    args.key_offsets = setting.key_offsets.empty() ? nullptr : setting.key_offsets.data();
    args.key_tokens = setting.key_tokens;
    args.scores.scale = scale();
    args.window = setting.window;
    args.dtype = setting.dtype;
    args.q = q.data();
    args.k = k.data();
    args.v = v.data();
    args.o = o.data();
    args.lse = setting.trains ? reinterpret_cast<float*>(lse.data()) : nullptr;
    grad.d_o = d_o.data();
    grad.dq = dq.data();
    grad.dk = dk.data();
    grad.dv = dv.data();

    ThreadPool pool(threads);
    constexpr size_t kGuard = 256;
    const auto bytes = static_cast<size_t>(attention_backward_workspace_bytes(
        setting.tokens, setting.key_rows(), setting.heads, setting.head_size, threads));
    std::vector<std::byte> memory(bytes + 2 * kGuard, std::byte{0xFF});
    std::byte* workspace = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    attention_forward_with(kernels, path, args, workspace, pool);
    if (setting.trains) attention_backward_with(kernels, path, items, grad, workspace, pool);
    bool intact = true;
    for (size_t i = 0; i < kGuard; ++i) intact = intact && workspace[bytes + i] == std::byte{0xFF};
    CHECK(intact);
  }
  [[nodiscard]] float scale() const { return 1 / std::sqrt(static_cast<float>(setting.head_size)); }

  Setting setting;
  Tensor q, k, v, d_o, o, dq, dk, dv, lse;
};

// The same in float64, from the definition: a matrix of probabilities for each sequence and head.
struct Reference {
  explicit Reference(const Attention& a)
      : o(size(a.q)),
        dq(size(a.q)),
        dk(size(a.k)),
        dv(size(a.k)),
        lse(static_cast<size_t>(a.lse.rows * a.lse.columns)) {
    const Setting& s = a.setting;
    for (size_t i = 0; i + 1 < s.offsets.size(); ++i) {
      const std::vector<int32_t>& keys = s.key_offsets.empty() ? s.offsets : s.key_offsets;
      for (int64_t head = 0; head < s.heads; ++head)
        add_head(a, s.offsets[i], s.offsets[i + 1], keys[i], keys[i + 1], head);
    }
  }

  std::vector<double> o, dq, dk, dv, lse;

 private:
  static size_t size(const Tensor& t) { return static_cast<size_t>(t.rows * t.columns); }

  void add_head(const Attention& a, int64_t begin, int64_t end, int64_t key_begin, int64_t key_end, int64_t head) {
    const Setting& s = a.setting;
    const int64_t n = s.head_size, kv = head / (s.heads / s.kv_heads);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = s.window > 0 ? std::max(begin, i - s.window + 1) : key_begin;
      const int64_t last = s.is_causal ? i : key_end - 1;
      std::vector<double> p, d_p;
      double sum = 0, delta = 0;
      for (int64_t j = first; j <= last; ++j) {
        double score = 0, grad = 0;
        for (int64_t c = 0; c < n; ++c) {
          score += a.q.at(i, head * n + c) * a.k.at(j, kv * n + c);
          grad += a.d_o.at(i, head * n + c) * a.v.at(j, kv * n + c);
        }
        p.push_back(std::exp(score * a.scale()));
        d_p.push_back(grad);
        sum += p.back();
      }
      for (size_t j = 0; j < p.size(); ++j) {
        p[j] /= sum;
        delta += p[j] * d_p[j];
      }
      nth(lse, i * s.heads + head) = last < first ? 0 : std::log(sum);
      for (int64_t j = first; j <= last; ++j) {
        const double weight = nth(p, j - first);
        const double d_score = weight * (nth(d_p, j - first) - delta) * a.scale();
        for (int64_t c = 0; c < n; ++c) {
          const auto row = static_cast<size_t>((i * s.heads + head) * n + c);
          const auto column = static_cast<size_t>((j * s.kv_heads + kv) * n + c);
          o[row] += weight * a.v.at(j, kv * n + c);
          dq[row] += d_score * a.k.at(j, kv * n + c);
          dk[column] += d_score * a.q.at(i, head * n + c);
          dv[column] += weight * a.d_o.at(i, head * n + c);
        }
      }
    }
  }
};

// Returns the largest |got - want|, relative to 1 and |want|; NaN counts as infinite.
double error(const Tensor& got, const std::vector<double>& want) {
  double worst = 0;
  for (int64_t i = 0; i < got.rows * got.columns; ++i) {
    const double expected = nth(want, i);
    const double off = std::fabs(got.at(i / got.columns, i % got.columns) - expected) / (1 + std::fabs(expected));
    worst = off <= worst ? worst : (std::isnan(off) ? std::numeric_limits<double>::infinity() : off);
  }
  return worst;
}

void check_attention(const Setting& setting, const MatmulKernels& kernels, int threads,
                     Bf16Path path = Bf16Path::kWidenToF32) {
  Attention attention(setting);
  attention.run(kernels, threads, path);
  const Reference want(attention);
  const double tolerance = setting.dtype == DType::kF32 ? 4e-6 : path == Bf16Path::kWidenToF32 ? 6e-3 : 1.2e-2;
  CAPTURE(kernels.name);
  CAPTURE(setting.head_size);
  CAPTURE(setting.window);
  CHECK(error(attention.o, want.o) < tolerance);
  CHECK(error(attention.lse, want.lse) < 4e-6);
  CHECK(error(attention.dq, want.dq) < tolerance);
  CHECK(error(attention.dk, want.dk) < tolerance);
  CHECK(error(attention.dv, want.dv) < tolerance);
}

TEST_CASE("attention and its gradient agree with float64 for every kernel") {
  for (const MatmulKernels* kernels : supported_matmul_kernels()) {
    check_attention({.offsets = {0, 1, 6, 41}, .tokens = 41, .heads = 6, .kv_heads = 2, .head_size = 16}, *kernels, 2);
    check_attention({.offsets = {0, 201}, .tokens = 201, .heads = 2, .kv_heads = 1, .head_size = 40}, *kernels, 1);
  }
}

TEST_CASE("attention agrees with float64 across tiles, for long groups and for odd heads") {
  const MatmulKernels& best = best_matmul_kernels();
  check_attention({.offsets = {0, 300, 300, 470}, .tokens = 470, .heads = 3, .kv_heads = 1, .head_size = 64}, best, 2);
  check_attention({.offsets = {0, 97}, .tokens = 97, .heads = 7, .kv_heads = 1, .head_size = 33}, best, 3);
  check_attention({.offsets = {0, 30, 90}, .tokens = 90, .heads = 2, .kv_heads = 2, .head_size = 128}, best, 2);
}

TEST_CASE("a sliding window hides what lies before it") {
  for (const MatmulKernels* kernels : supported_matmul_kernels()) {
    for (const int64_t window : {1, 7, 100}) {
      check_attention(
          {.offsets = {0, 33, 290}, .tokens = 290, .heads = 2, .kv_heads = 1, .head_size = 16, .window = window},
          *kernels, 2);
    }
  }
}

TEST_CASE("attention without a mask agrees with float64, of its own keys and of another stream's") {
  for (const MatmulKernels* kernels : supported_matmul_kernels()) {
    for (const Way& way : ways()) {
      if (way.path == Bf16Path::kNativeDot && !kernels->has_bf16()) continue;
      Setting setting{.offsets = {0, 1, 6, 191}, .tokens = 191, .heads = 2, .kv_heads = 1, .head_size = 40};
      setting.is_causal = false;
      setting.dtype = way.dtype;
      check_attention(setting, *kernels, 2, way.path);
      setting.key_offsets = {0, 140, 140, 230};
      setting.key_tokens = 235;
      check_attention(setting, *kernels, 2, way.path);
    }
  }
}

TEST_CASE("whether threads take sequences or tiles does not change a bit of attention's gradient") {
  const auto check = [](const Setting& setting, const MatmulKernels& kernels, Bf16Path path) {
    Attention tiles(setting), sequences(setting);
    tiles.run(kernels, 2, path, BackwardItems::kTiles);
    sequences.run(kernels, 2, path, BackwardItems::kSequences);
    CAPTURE(kernels.name);
    CAPTURE(setting.head_size);
    CAPTURE(setting.window);
    CHECK(tiles.dq.bytes == sequences.dq.bytes);
    CHECK(tiles.dk.bytes == sequences.dk.bytes);
    CHECK(tiles.dv.bytes == sequences.dv.bytes);
  };
  for (const MatmulKernels* kernels : supported_matmul_kernels()) {
    for (const Way& way : ways()) {
      if (way.path == Bf16Path::kNativeDot && !kernels->has_bf16()) continue;
      for (const int64_t window : {0, 7, 100}) {
        Setting setting{.offsets = {0, 1, 1, 34, 345}, .tokens = 350, .heads = 6, .kv_heads = 2, .head_size = 24};
        setting.window = window;
        setting.dtype = way.dtype;
        check(setting, *kernels, way.path);
        setting.head_size = 65;
        setting.offsets = {0, 128, 257};
        check(setting, *kernels, way.path);
      }
      Setting setting{.offsets = {0, 1, 1, 134, 345}, .tokens = 350, .heads = 6, .kv_heads = 2, .head_size = 24};
      setting.dtype = way.dtype;
      setting.is_causal = false;
      check(setting, *kernels, way.path);
      setting.key_offsets = {0, 30, 31, 31, 300};
      setting.key_tokens = 310;
      check(setting, *kernels, way.path);
    }
  }
}

TEST_CASE("threads take sequences where these are short and many") {
  const std::vector<int32_t> offsets = {0, 512, 1024, 1536, 2048};
  AttentionArgs args{.tokens = 2048, .heads = 9, .kv_heads = 3, .head_size = 64};
  args.seq_offsets = offsets.data();
  args.sequences = 4;
  CHECK(backward_items(args, 2) == BackwardItems::kSequences);
  CHECK(backward_items(args, 16) == BackwardItems::kTiles);  // 12 items
  const std::vector<int32_t> one = {0, 2048};
  args.seq_offsets = one.data();
  args.sequences = 1;
  CHECK(backward_items(args, 1) == BackwardItems::kTiles);  // too long
}

TEST_CASE("attention of bf16 sums in f32") {
  for (const MatmulKernels* kernels : supported_matmul_kernels()) {
    check_attention(
        {.offsets = {0, 50, 190}, .tokens = 190, .heads = 4, .kv_heads = 2, .head_size = 32, .dtype = DType::kBF16},
        *kernels, 2);
  }
}

TEST_CASE("attention by dot products of bf16 pairs agrees with float64") {
  for (const MatmulKernels* kernels : supported_matmul_kernels()) {
    if (!kernels->has_bf16()) continue;
    const auto check = [&](Setting setting) {
      setting.dtype = DType::kBF16;
      check_attention(setting, *kernels, 2, Bf16Path::kNativeDot);
    };
    check({.offsets = {0, 50, 191}, .tokens = 191, .heads = 4, .kv_heads = 2, .head_size = 32});
    check({.offsets = {0, 300, 300, 470}, .tokens = 470, .heads = 3, .kv_heads = 1, .head_size = 64});
    check({.offsets = {0, 97}, .tokens = 97, .heads = 7, .kv_heads = 1, .head_size = 33});
    check({.offsets = {0, 33, 290}, .tokens = 290, .heads = 2, .kv_heads = 1, .head_size = 16, .window = 7});
  }
}

TEST_CASE("tokens after the last sequence get zeros") {
  Attention attention({.offsets = {0, 20}, .tokens = 25, .heads = 2, .kv_heads = 1, .head_size = 8});
  attention.run(best_matmul_kernels(), 2);
  for (const Tensor* tensor : {&attention.o, &attention.dq, &attention.dk, &attention.dv, &attention.lse}) {
    for (int64_t column = 0; column < tensor->columns; ++column) CHECK(tensor->at(22, column) == 0);
  }
}

TEST_CASE("attention whose lse nobody wants is the same") {
  Setting setting{.offsets = {0, 20}, .tokens = 25, .heads = 2, .kv_heads = 1, .head_size = 8};
  Attention with(setting);
  setting.trains = false;
  Attention without(setting);
  for (Attention* attention : {&with, &without}) attention->run(best_matmul_kernels(), 2);
  CHECK(with.o.bytes == without.o.bytes);
}

TEST_CASE("the number of threads does not change a bit of attention") {
  for (const Way& way : ways()) {
    const Setting setting{
        .offsets = {0, 150, 260}, .tokens = 260, .heads = 6, .kv_heads = 2, .head_size = 24, .dtype = way.dtype};
    Attention one(setting), four(setting);
    one.run(best_matmul_kernels(), 1, way.path);
    four.run(best_matmul_kernels(), 4, way.path);
    CHECK(one.o.bytes == four.o.bytes);
    CHECK(one.dq.bytes == four.dq.bytes);
    CHECK(one.dk.bytes == four.dk.bytes);
    CHECK(one.dv.bytes == four.dv.bytes);
  }
}

// Returns the bytes of the rows from `first` on.
std::vector<std::byte> tail(const Tensor& tensor, int64_t first, int64_t rows) {
  const auto row_bytes = static_cast<size_t>(tensor.columns * size_of(tensor.dtype));
  const auto begin = tensor.bytes.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(first) * row_bytes);
  return {begin, begin + static_cast<ptrdiff_t>(static_cast<size_t>(rows) * row_bytes)};
}

TEST_CASE("a sequence's bits do not depend on what stands before it in the stream") {
  for (const Way& way : ways()) {
    const Setting shared{.offsets = {0, 45, 245},
                         .tokens = 245,
                         .heads = 2,
                         .kv_heads = 1,
                         .head_size = 16,
                         .window = 90,
                         .dtype = way.dtype};
    Setting alone = shared;
    alone.offsets = {0, 200};
    alone.tokens = 200;
    Attention both(shared), single(alone);
    for (auto [whole, part] :
         {std::pair{&both.q, &single.q}, {&both.k, &single.k}, {&both.v, &single.v}, {&both.d_o, &single.d_o}}) {
      part->bytes = tail(*whole, 45, 200);
    }
    both.run(best_matmul_kernels(), 2, way.path);
    single.run(best_matmul_kernels(), 1, way.path);
    CHECK(tail(both.o, 45, 200) == single.o.bytes);
    CHECK(tail(both.dq, 45, 200) == single.dq.bytes);
    CHECK(tail(both.dk, 45, 200) == single.dk.bytes);
    CHECK(tail(both.dv, 45, 200) == single.dv.bytes);
  }
}

TEST_CASE("a row's output has the same bits in a longer sequence") {
  for (const Way& way : ways()) {
    const Setting longer{
        .offsets = {0, 240}, .tokens = 240, .heads = 2, .kv_heads = 2, .head_size = 16, .dtype = way.dtype};
    Setting shorter = longer;
    shorter.offsets = {0, 131};
    Attention whole(longer), part(shorter);
    whole.run(best_matmul_kernels(), 1, way.path);
    part.run(best_matmul_kernels(), 1, way.path);
    CHECK(tail(whole.o, 0, 131) == tail(part.o, 0, 131));
  }
}

}  // namespace
}  // namespace spillway::cpu
