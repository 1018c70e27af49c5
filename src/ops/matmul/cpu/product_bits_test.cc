// The bits of products: the same whatever the number of threads or rows, and wherever operands and results lie.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "ops/matmul/cpu/testing/products.h"

namespace spillway::cpu {
namespace {

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
  GuardedBuffer workspace(bytes);
  matmul_with(*variant.kernels, variant.path, args, workspace.data(), pool);
  CHECK(workspace.guards_hold());
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
  GuardedBuffer workspace(decoding_matmul_workspace_bytes(shape, dtype, dtype, threads));
  ThreadPool pool(threads);
  matmul_with(*variant.kernels, variant.path, args, workspace.data(), pool);
  CHECK(workspace.guards_hold());
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
  GuardedBuffer workspace(matmul_workspace_bytes(shape, DType::kBF16, DType::kBF16, 2));
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

}  // namespace
}  // namespace spillway::cpu
