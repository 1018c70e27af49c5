#include "ops/matmul/cpu/product.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/cpu/isa.h"
#include "base/parallel.h"
#include "ops/matmul/cpu/testing/products.h"

namespace spillway::cpu {
namespace {

struct Product {
  MatmulShape shape;
  DType a = DType::kF32, b = DType::kF32, c = DType::kF32;
  float alpha = 1;
  bool addend = false, in_place = false, bias = false;
  float tail_alpha = 1;
};

double element(const Values& values, bool transposed, int64_t row, int64_t column) {
  return transposed ? values.at(column, row) : values.at(row, column);
}

// Runs the product and compares the elements of every `step`-th row with float64. The bound is that of a chain of
// additions: half an ulp of f32 of each partial sum, and half an ulp of the output's type.
void check_product(const Product& p, const Variant& variant, int threads, int64_t step = 1) {
  const auto [m, n, k, transpose_a, transpose_b, tail] = p.shape;
  const Values a(transpose_a ? k : m, transpose_a ? m : k, p.a, 1);
  const Values b(transpose_b ? n : k, transpose_b ? k : n, p.b, 2);
  const Values tail_a(transpose_a ? tail : m, transpose_a ? m : tail, p.a, 6);
  const Values tail_b(transpose_b ? n : tail, transpose_b ? tail : n, p.a, 7);
  const Values addend(m, n, p.in_place ? p.c : DType::kBF16, 3, p.in_place ? 5 : 2), bias(1, n, DType::kF32, 4);
  Values c(m, n, p.c, p.in_place ? 3 : 5, 5);
  MatmulArgs args;
  args.shape = p.shape;
  args.a = a.matrix();
  args.b = b.matrix();
  args.c = c.data();
  args.c_dtype = p.c;
  args.c_stride = c.stride();
  args.alpha = p.alpha;
  args.tail_a = tail_a.matrix();
  args.tail_b = tail_b.matrix();
  args.tail_alpha = p.tail_alpha;
  if (p.addend) {
    args.addend = p.in_place ? c.data() : addend.matrix().data;
    args.addend_dtype = addend.dtype();
    args.addend_stride = addend.stride();
  }
  if (p.bias) args.bias = bias.matrix().data;
  ThreadPool pool(threads);
  GuardedBuffer workspace(matmul_workspace_bytes(p.shape, p.a, p.b, threads));
  matmul_with(*variant.kernels, variant.path, args, workspace.data(), pool);

  CHECK(workspace.guards_hold());
  int64_t wrong = 0;
  const double rounding = p.c == DType::kF32 ? 0x1p-24 : 0x1p-8;
  for (int64_t i = 0; i < m; i += step) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (int64_t l = 0; l < k; ++l) {
        const double term = element(a, transpose_a, i, l) * element(b, transpose_b, l, j);
        sum += term;
        size += std::fabs(term);
      }
      sum *= p.alpha;
      size *= std::fabs(p.alpha);
      for (int64_t l = 0; l < tail; ++l) {
        const double term = p.tail_alpha * element(tail_a, transpose_a, i, l) * element(tail_b, transpose_b, l, j);
        sum += term;
        size += std::fabs(term);
      }
      const double bias_value = p.bias ? bias.at(0, j) : 0, addend_value = p.addend ? addend.at(i, j) : 0;
      const double want = sum + bias_value + addend_value;
      const double chain = 0x1p-24 * (300.0 + static_cast<double>(k + tail) / 128);
      const double bound = chain * (size + 2) + rounding * std::fabs(want);
      if (!(std::fabs(c.at(i, j) - want) <= bound)) ++wrong;
    }
    for (int64_t j = n; j < c.stride(); ++j) wrong += std::isnan(c.at(i, j)) ? 0 : 1;
  }
  CAPTURE(variant.kernels->name);
  CAPTURE(static_cast<int>(variant.path));
  CAPTURE(p.shape.m);
  CAPTURE(p.shape.n);
  CAPTURE(p.shape.k);
  CHECK(wrong == 0);
}

TEST_CASE("products of odd sizes agree with float64 for every kernel, type and transpose") {
  const int64_t sizes[][3] = {{1, 1, 1},    {1, 33, 17},  {15, 31, 16}, {14, 32, 256}, {29, 65, 259},
                              {47, 5, 300}, {33, 47, 31}, {64, 32, 64}, {95, 64, 1058}};
  for (const auto& [m, n, k] : sizes) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      for (const DType a : kTypes) {
        for (const DType b : kTypes) {
          for (const Variant& variant : variants(a, b)) {
            check_product({.shape = {m, n, k, (transposes & 1) != 0, (transposes & 2) != 0}, .a = a, .b = b}, variant,
                          1);
          }
        }
      }
    }
  }
}

TEST_CASE("alpha, bias and addend go into the product, also where the addend is the output") {
  for (const DType c : kTypes) {
    for (const int64_t columns : {5, 43}) {  // 5: computed transposed
      for (const Variant& variant : variants(DType::kBF16, DType::kBF16)) {
        Product product{
            .shape = {37, columns, 67, false, true}, .a = DType::kBF16, .b = DType::kBF16, .c = c, .alpha = -0.75f};
        check_product(product, variant, 2);
        product.bias = true;
        check_product(product, variant, 2);
        product.addend = true;
        check_product(product, variant, 2);
        product.in_place = true;
        check_product(product, variant, 2);
      }
    }
  }
}

TEST_CASE("a tail joins the sums of a product, for every kernel, type and transpose") {
  // Few rows, a result that is computed transposed, a short k, a long one, and more of the tail than a tile takes.
  constexpr std::array<MatmulShape, 6> kShapes = {{{.m = 1, .n = 133, .k = 17, .tail = 16},
                                                   {.m = 14, .n = 320, .k = 256, .tail = 3},
                                                   {.m = 470, .n = 5, .k = 300, .tail = 8},
                                                   {.m = 64, .n = 300, .k = 40, .tail = 16},
                                                   {.m = 95, .n = 64, .k = 4300, .tail = 700},
                                                   {.m = 3, .n = 40, .k = 0, .tail = 2}}};
  for (MatmulShape shape : kShapes) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      shape.transpose_a = (transposes & 1) != 0;
      shape.transpose_b = (transposes & 2) != 0;
      for (const DType a : kTypes) {
        for (const DType b : kTypes) {
          for (const Variant& variant : variants(a, b)) {
            // A power of two, which bf16 does not round.
            check_product({.shape = shape, .a = a, .b = b, .alpha = 2, .addend = true, .tail_alpha = 0.5f}, variant, 2);
          }
        }
      }
    }
  }
}

TEST_CASE("an empty sum leaves bias and addend") {
  for (const Variant& variant : variants(DType::kF32, DType::kF32)) {
    check_product({.shape = {3, 40, 0, false, true}}, variant, 1);
    check_product({.shape = {3, 40, 0, false, false}, .addend = true, .bias = true}, variant, 2);
    check_product({.shape = {0, 40, 3, false, true}}, variant, 1);
  }
}

TEST_CASE("products of many blocks agree with float64") {
  const Variant best{&best_matmul_kernels(), Bf16Path::kWidenToF32};
  check_product({.shape = {300, 70, 4300, false, true}, .b = DType::kBF16}, best, 2, 37);
  check_product({.shape = {70, 300, 8500, true, false}}, best, 3, 19);
  check_product({.shape = {270, 2100, 4200, false, false}, .c = DType::kBF16, .alpha = 2, .addend = true}, best, 2,
                131);
}

TEST_CASE("products of bf16 whose operands do not fit a cache agree with float64") {
  for (const Variant& variant : variants(DType::kBF16, DType::kBF16)) {
    if (variant.kernels != &best_matmul_kernels()) continue;
    const auto check = [&](const MatmulShape& shape, DType c, bool adds) {
      check_product({.shape = shape, .a = DType::kBF16, .b = DType::kBF16, .c = c, .addend = adds, .in_place = adds},
                    variant, 2, 37);
    };
    check({400, 70, 1536, false, true}, DType::kBF16, false);  // more rows than stay in the second cache
    check({400, 140, 1536, false, false}, DType::kF32, true);  // the same, with a right operand across k
    check({70, 130, 9000, true, false}, DType::kF32, false);   // sums that wait between blocks of k
    check({16, 200, 2100, true, false}, DType::kF32, false);   // few rows
    check({300, 2100, 40, false, true}, DType::kBF16, true);   // so short a k that whole rows are finished
    check({300, 101, 64, false, false}, DType::kBF16, false);  // the same, of less than a tile's columns at the end
  }
}

TEST_CASE("infinities and NaN stay in the rows and columns they belong to") {
  for (const DType dtype : kTypes) {
    for (const Variant& variant : variants(dtype, dtype)) {
      CAPTURE(std::string(variant.kernels->name));
      Values a(20, 40, dtype, 1), b(20, 40, dtype, 2), c(20, 20, DType::kF32, 3);
      a.set(3, 39, kNoNumber);
      b.set(17, 0, std::numeric_limits<float>::infinity());
      MatmulArgs args;
      args.shape = {20, 20, 40, false, true};
      args.a = a.matrix();
      args.b = b.matrix();
      args.c = c.data();
      args.c_stride = c.stride();
      ThreadPool pool(1);
      GuardedBuffer workspace(matmul_workspace_bytes(args.shape, dtype, dtype, 1));
      matmul_with(*variant.kernels, variant.path, args, workspace.data(), pool);
      for (int64_t i = 0; i < 20; ++i) {
        for (int64_t j = 0; j < 20; ++j) CHECK(std::isfinite(c.at(i, j)) == (i != 3 && j != 17));
      }
    }
  }
}

TEST_CASE("products use the instruction set that the process limits itself to") {
  for (const std::string_view name : supported_isas()) {
    CAPTURE(name);
    limit_isa(name);
    CHECK(best_matmul_kernels().name == name);
    CHECK(has_native_bf16_dot() == name.ends_with("_bf16"));
  }
  limit_isa("");
  CHECK(best_matmul_kernels().name == supported_isas().back());
}

TEST_CASE("the bf16 path is measured once and can be fixed") {
  const Bf16Path measured = choose_bf16_path();
  CHECK(choose_bf16_path() == measured);
  set_bf16_path(Bf16Path::kWidenToF32);
  CHECK(choose_bf16_path() == Bf16Path::kWidenToF32);
  set_bf16_path(std::nullopt);
  CHECK(choose_bf16_path() == measured);
  if (!has_native_bf16_dot()) CHECK(measured == Bf16Path::kWidenToF32);
}

TEST_CASE("the bf16 path that is measured is the same while other work keeps all cores busy") {
  const Bf16Path measured = measure_bf16_path();
  std::atomic<bool> done{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 2 * available_cpus(); ++i) {
    others.emplace_back([&] {
      while (!done) continue;
    });
  }
  int agreeing = 0;
  for (int i = 0; i < 10; ++i) agreeing += measure_bf16_path() == measured;
  done = true;
  for (std::thread& other : others) other.join();
  CHECK(agreeing == 10);
}

TEST_CASE("bf16 is rounded to nearest even on the way out, denormal numbers and NaN included") {
  for (const MatmulKernels* kernels : supported_matmul_kernels()) {
    const float numbers[] = {1.00390625f, 1.01171875f, 1e-39f, -0.0f, kNoNumber, INFINITY, 3.4e38f, 1.0f, 2.5f, -7.3f};
    // A row ends with less than a vector of any kernel.
    constexpr int64_t kColumns = 40;
    float tile[kColumns];
    for (int64_t i = 0; i < kColumns; ++i) tile[i] = numbers[i % 10];
    bf16 out[kColumns] = {};
    const TileTarget target{.c = out, .c_dtype = DType::kBF16, .c_stride = kColumns};
    kernels->finish(tile, kColumns, target, {.row = 0, .rows = 1, .column = 0, .columns = kColumns - 1});
    for (int64_t i = 0; i < kColumns - 1; ++i) CHECK(out[i].bits == to_bf16(tile[i]).bits);
    CHECK(out[kColumns - 1].bits == 0);
  }
}

}  // namespace
}  // namespace spillway::cpu
