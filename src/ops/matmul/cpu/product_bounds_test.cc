// Products and packing read no memory behind their operands.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/parallel.h"
#include "ops/matmul/cpu/testing/products.h"

namespace spillway::cpu {
namespace {

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
        GuardedBuffer workspace(matmul_workspace_bytes(args.shape, dtype, dtype, 1));
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

}  // namespace
}  // namespace spillway::cpu
