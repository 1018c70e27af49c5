#include "ops/matmul/cpu/product.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/cpu/isa.h"
#include "base/math.h"
#include "base/parallel.h"
#include "base/random.h"
#include "ops/matmul/cpu/kernels.h"

namespace spillway::cpu {
namespace {

constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

// A stored matrix with rows wider than its columns; the padding between is NaN, so that reading it shows.
class Values {
 public:
  Values(int64_t rows, int64_t columns, DType dtype, uint64_t stream, int64_t padding = 3)
      : dtype_(dtype), stride_(columns + padding), bytes_(static_cast<size_t>(rows * stride_ * size_of(dtype))) {
    RandomStream random(7, stream);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < stride_; ++j) set(i, j, j < columns ? 2 * random.uniform() - 1 : kNoNumber);
    }
  }
  void set(int64_t i, int64_t j, float value) {
    if (dtype_ == DType::kF32) {
      reinterpret_cast<float*>(bytes_.data())[i * stride_ + j] = value;
    } else {
      reinterpret_cast<bf16*>(bytes_.data())[i * stride_ + j] = to_bf16(value);
    }
  }
  [[nodiscard]] double at(int64_t i, int64_t j) const {
    return dtype_ == DType::kF32 ? reinterpret_cast<const float*>(bytes_.data())[i * stride_ + j]
                                 : to_float(reinterpret_cast<const bf16*>(bytes_.data())[i * stride_ + j]);
  }
  [[nodiscard]] Matrix matrix() const { return {bytes_.data(), dtype_, stride_}; }
  [[nodiscard]] void* data() { return bytes_.data(); }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] int64_t stride() const { return stride_; }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  DType dtype_;
  int64_t stride_;
  std::vector<std::byte> bytes_;
};

// A workspace of exactly the promised size between guards.
class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(int64_t bytes)
      : size_(static_cast<size_t>(bytes)), memory_(size_ + 3 * kGuard, std::byte{0xA5}) {
    begin_ = memory_.data() + kGuard;
    begin_ += (64 - reinterpret_cast<uintptr_t>(begin_) % 64) % 64;
    std::memset(begin_, 0xFF, size_);  // NaN: reading before writing shows
  }
  [[nodiscard]] std::byte* data() { return begin_; }
  [[nodiscard]] bool intact() const {
    for (size_t i = 1; i <= kGuard; ++i) {
      if (begin_[-static_cast<ptrdiff_t>(i)] != std::byte{0xA5} || begin_[size_ + i - 1] != std::byte{0xA5})
        return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 128;
  size_t size_;
  std::vector<std::byte> memory_;
  std::byte* begin_;
};

struct Variant {
  const MatmulKernels* kernels;
  Bf16Path path;
};

// Returns every way in which this CPU can multiply two matrices of these types.
std::vector<Variant> variants(DType a, DType b) {
  std::vector<Variant> all;
  for (const MatmulKernels* kernels : supported_matmul_kernels()) {
    all.push_back({kernels, Bf16Path::kWidenToF32});
    const bool pairs = kernels->has_bf16() && a == DType::kBF16 && b == DType::kBF16;
    if (pairs) all.push_back({kernels, Bf16Path::kNativeDot});
  }
  return all;
}

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
  GuardedWorkspace workspace(matmul_workspace_bytes(p.shape, p.a, p.b, threads));
  matmul_with(*variant.kernels, variant.path, args, workspace.data(), pool);

  CHECK(workspace.intact());
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

constexpr DType kTypes[] = {DType::kF32, DType::kBF16};

// Returns the bytes of C for the first `rows` rows of one fixed product.
std::vector<std::byte> product_bytes(MatmulShape shape, int64_t rows, DType dtype, const Variant& variant,
                                     int threads) {
  const Values a(shape.transpose_a ? shape.k : shape.m, shape.transpose_a ? shape.m : shape.k, dtype, 11);
  const Values b(shape.transpose_b ? shape.n : shape.k, shape.transpose_b ? shape.k : shape.n, dtype, 12);
  Values c(rows, shape.n, dtype, 13, 0);
  const Values tail_a(shape.transpose_a ? shape.tail : shape.m, shape.transpose_a ? shape.m : shape.tail, dtype, 14);
  const Values tail_b(shape.transpose_b ? shape.n : shape.tail, shape.transpose_b ? shape.tail : shape.n, dtype, 15);
  const int64_t bytes = matmul_workspace_bytes(shape, dtype, dtype, threads);  // of the largest
  shape.m = rows;
  MatmulArgs args;
  args.shape = shape;
  args.a = a.matrix();
  args.b = b.matrix();
  args.c = c.data();
  args.c_dtype = dtype;
  args.c_stride = c.stride();
  args.tail_a = tail_a.matrix();
  args.tail_b = tail_b.matrix();
  args.tail_alpha = 0.7f;
  ThreadPool pool(threads);
  GuardedWorkspace workspace(bytes);
  matmul_with(*variant.kernels, variant.path, args, workspace.data(), pool);
  CHECK(workspace.intact());
  return c.bytes();
}

// Writes the elements of a matrix as if they were decoded.
void copy_elements(const void* coded, const MatrixRange& range, DType elements, DType dtype, int64_t stride,
                   void* out) {
  const Values& values = *static_cast<const Values*>(coded);
  CHECK(elements == values.dtype());
  for (int64_t i = 0; i < range.rows; ++i) {
    for (int64_t j = 0; j < range.columns; ++j) {
      const float value = static_cast<float>(values.at(range.row + i, range.column + j));
      if (dtype == DType::kF32) {
        static_cast<float*>(out)[i * stride + j] = value;
      } else {
        static_cast<bf16*>(out)[i * stride + j] = to_bf16(value);
      }
    }
  }
}

// Returns the bits of C with b in place or decoded.
std::vector<std::byte> product_with(const MatmulShape& shape, DType dtype, const Variant& variant, int threads,
                                    bool decoded) {
  const Values a(shape.m, shape.k, dtype, 1);
  const Values b(shape.transpose_b ? shape.n : shape.k, shape.transpose_b ? shape.k : shape.n, dtype, 2);
  Values c(shape.m, shape.n, DType::kF32, 3);
  const MatrixDecoder decoder{copy_elements, &b};
  MatmulArgs args{.shape = shape, .a = a.matrix(), .b = b.matrix(), .c = c.data(), .c_stride = c.stride()};
  if (decoded) args.b = {nullptr, dtype, b.stride(), &decoder};
  GuardedWorkspace workspace(decoding_matmul_workspace_bytes(shape, dtype, dtype, threads));
  ThreadPool pool(threads);
  matmul_with(*variant.kernels, variant.path, args, workspace.data(), pool);
  CHECK(workspace.intact());
  return c.bytes();
}

TEST_CASE("a matrix that is decoded gives the bits of one that lies in memory, with every kernel") {
  // The sizes have few rows, many, tall results that are computed transposed, and more of k than is packed at once.
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{1, 70, 600}, {37, 133, 515}, {300, 20, 90}, {5, 40, 9000}, {400, 40, 1536}}) {
    for (const bool transpose_b : {false, true}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        for (const Variant& variant : variants(dtype, dtype)) {
          CAPTURE(m);
          CAPTURE(transpose_b);
          CAPTURE(name_of(dtype));
          CAPTURE(std::string(variant.kernels->name));
          const MatmulShape shape{m, n, k, false, transpose_b};
          const std::vector<std::byte> plain = product_with(shape, dtype, variant, 1, false);
          for (const int threads : {1, 2}) {
            const bool same_bits = product_with(shape, dtype, variant, threads, true) == plain;
            CHECK(same_bits);
          }
        }
      }
    }
  }
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

// Memory of whole lines.
template <typename T>
class Lines {
 public:
  explicit Lines(int64_t elems) : memory_(static_cast<size_t>(elems) + 64 / sizeof(T)) {}
  [[nodiscard]] T* data() {
    return memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64 / sizeof(T);
  }

 private:
  std::vector<T> memory_;
};

// Returns the bits of a bias plus the product of two fixed matrices, of bf16, in rows that begin at lines or not.
template <typename T>
std::vector<T> product_in_rows(const MatmulShape& shape, const Variant& variant, bool at_lines) {
  const Values a(shape.m, shape.k, DType::kBF16, 1), b(shape.n, shape.k, DType::kBF16, 2);
  const Values bias(1, shape.n, DType::kBF16, 3);
  const int64_t stride = shape.n + (at_lines ? 0 : 1);
  Lines<T> c(shape.m * stride);
  const MatmulArgs args{.shape = shape,
                        .a = a.matrix(),
                        .b = b.matrix(),
                        .c = c.data(),
                        .c_dtype = sizeof(T) == sizeof(float) ? DType::kF32 : DType::kBF16,
                        .c_stride = stride,
                        .bias = bias.matrix().data,
                        .bias_dtype = DType::kBF16};
  ThreadPool pool(2);
  GuardedWorkspace workspace(matmul_workspace_bytes(shape, DType::kBF16, DType::kBF16, 2));
  matmul_with(*variant.kernels, variant.path, args, workspace.data(), pool);
  std::vector<T> rows;
  for (int64_t i = 0; i < shape.m; ++i) rows.insert(rows.end(), c.data() + i * stride, c.data() + i * stride + shape.n);
  return rows;
}

TEST_CASE("a large result has the same bits whether its rows are whole lines of memory or not") {
  for (const Variant& variant : variants(DType::kBF16, DType::kBF16)) {
    if (variant.kernels != &best_matmul_kernels()) continue;
    for (const int64_t k : {40, 330}) {
      const MatmulShape shape{331, 2048, k, false, true};
      CHECK(product_in_rows<float>(shape, variant, true) == product_in_rows<float>(shape, variant, false));
      const auto bits = [&](bool at_lines) {
        std::vector<uint16_t> all;
        for (const bf16 element : product_in_rows<bf16>(shape, variant, at_lines)) all.push_back(element.bits);
        return all;
      };
      CHECK(bits(true) == bits(false));
    }
  }
}

TEST_CASE("the number of threads does not change a bit of a product") {
  for (const DType dtype : kTypes) {
    for (const MatmulShape& shape :
         {MatmulShape{150, 200, 600, false, true, 21}, MatmulShape{64, 90, 5000, false, false},
          MatmulShape{300, 16, 333, true, false, 16}, MatmulShape{400, 100, 1536, false, false, 8},
          MatmulShape{300, 200, 40, false, true, 5}, MatmulShape{64, 90, 9000, true, false}}) {
      for (const Variant& variant : variants(dtype, dtype)) {
        if (variant.kernels != &best_matmul_kernels()) continue;
        const auto alone = product_bytes(shape, shape.m, dtype, variant, 1);
        CHECK(product_bytes(shape, shape.m, dtype, variant, 2) == alone);
        CHECK(product_bytes(shape, shape.m, dtype, variant, 5) == alone);
      }
    }
  }
}

TEST_CASE("a row's bits and the workspace hold for any smaller number of rows") {
  for (const DType dtype : kTypes) {
    for (const MatmulShape& shape :
         {MatmulShape{131, 70, 700, false, true, 16}, MatmulShape{131, 9, 300, false, false, 7},
          MatmulShape{300, 40, 4500, false, true, 3}, MatmulShape{131, 540, 330, false, true}}) {
      for (const Variant& variant : variants(dtype, dtype)) {
        if (shape.k > 1000 && variant.kernels != &best_matmul_kernels()) continue;
        const auto whole = product_bytes(shape, shape.m, dtype, variant, 1);
        for (const int64_t rows : {1, 2, 8, 15, 33, 130}) {
          const auto part = product_bytes(shape, rows, dtype, variant, 2);
          CHECK(std::memcmp(part.data(), whole.data(), part.size()) == 0);
        }
      }
    }
  }
}

TEST_CASE("kernels with fused multiply-add agree bit for bit") {
  const MatmulShape shape{45, 77, 611, false, true, 19};
  for (const DType dtype : kTypes) {
    std::vector<std::byte> first;
    for (const Variant& variant : variants(dtype, dtype)) {
      if (std::strcmp(variant.kernels->name, "portable") == 0 || variant.path == Bf16Path::kNativeDot) continue;
      const auto bytes = product_bytes(shape, shape.m, dtype, variant, 1);
      if (first.empty()) first = bytes;
      CHECK(bytes == first);
    }
  }
}

// A piece of memory of a page's size, behind which reading fails.
class LastPage {
 public:
  LastPage() : bytes_(sysconf(_SC_PAGESIZE)) {
    pages_ = static_cast<std::byte*>(
        mmap(nullptr, static_cast<size_t>(2 * bytes_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(pages_ != MAP_FAILED);
    REQUIRE(mprotect(pages_ + bytes_, static_cast<size_t>(bytes_), PROT_NONE) == 0);
  }
  ~LastPage() { munmap(pages_, static_cast<size_t>(2 * bytes_)); }
  LastPage(const LastPage&) = delete;
  LastPage& operator=(const LastPage&) = delete;

  [[nodiscard]] float* last(int64_t floats) { return reinterpret_cast<float*>(pages_ + bytes_) - floats; }

 private:
  int64_t bytes_;
  std::byte* pages_;
};

TEST_CASE("packing a panel reads nothing beyond the rows of the matrix") {
  constexpr int64_t kUnits = 32;
  for (const MatmulKernels* kernels : supported_matmul_kernels()) {
    CAPTURE(std::string(kernels->name));
    for (int64_t rows = 1; rows <= 20; ++rows) {
      CAPTURE(rows);
      LastPage page;
      float* matrix = page.last(rows * kUnits);
      for (int64_t i = 0; i < rows * kUnits; ++i) matrix[i] = static_cast<float>(i);
      alignas(64) float panel[32 * kUnits];
      kernels->pack({.data = matrix, .stride = kUnits}, {.count = rows, .width = rows, .k_end = kUnits}, panel);
      bool is_transposed = true;
      for (int64_t k = 0; k < kUnits; ++k) {
        for (int64_t row = 0; row < rows; ++row)
          is_transposed &= panel[k * rows + row] == static_cast<float>(row * kUnits + k);
      }
      CHECK(is_transposed);
    }
  }
}

TEST_CASE("a product of few rows reads nothing beyond the right operand") {
  constexpr int64_t kColumns = 16;
  for (const DType dtype : kTypes) {
    for (const Variant& variant : variants(dtype, dtype)) {
      for (const int64_t k : {1, 7, 16, 37, 63}) {
        CAPTURE(std::string(variant.kernels->name));
        CAPTURE(k);
        const Values a(2, k, dtype, 1, 0), b(kColumns, k, dtype, 2, 0);
        LastPage page;
        auto* const right = reinterpret_cast<std::byte*>(page.last(0)) - b.bytes().size();
        std::copy(b.bytes().begin(), b.bytes().end(), right);
        Values c(2, kColumns, DType::kF32, 3), expected = c;
        MatmulArgs args{
            .shape = {2, kColumns, k, false, true}, .a = a.matrix(), .b = b.matrix(), .c_stride = c.stride()};
        ThreadPool pool(1);
        GuardedWorkspace workspace(matmul_workspace_bytes(args.shape, dtype, dtype, 1));
        args.c = expected.data();
        matmul_with(*variant.kernels, variant.path, args, workspace.data(), pool);
        args.b.data = right;
        args.c = c.data();
        matmul_with(*variant.kernels, variant.path, args, workspace.data(), pool);
        CHECK(c.bytes() == expected.bytes());
      }
    }
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
      GuardedWorkspace workspace(matmul_workspace_bytes(args.shape, dtype, dtype, 1));
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
