// The matrix product of the CPU backend: C = alpha * op(A) op(B) + bias + addend, f32 or bf16 in, f32 sums, f32 or bf16
// out. A second, thin product may join the sums, as that of a low-rank adapter does: tail_alpha * op(A') op(B').
//
// A product allocates nothing: it works in memory that the plan gives it. Every element of C is summed over k in one
// fixed order, so its bits depend neither on the number of threads nor on how many other rows and columns there are.
// For the reasons for our own product see docs/decisions/0002-own-matrix-product.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/parallel.h"
#include "tensor/dtype.h"

namespace spillway::cpu {

// C [m, n] = op(A) [m, k] op(B) [k, n]. A transposed matrix is stored as [k, m] or [n, k]. With a tail, op(A') [m,
// tail] op(B') [tail, n] is added, whose matrices are stored in the same way.
struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t tail = 0;
  bool operator==(const MatmulShape&) const = default;
};

// The rows and columns of a matrix as stored.
struct MatrixRange {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
};

// A matrix stored as rows of codes and scales, which a product of few rows decodes one element after the other:
// table[code] * scale, or code * scale of a code that is an i8, and then rounded to bf16 if `to_bf16`.
struct CodedRows {
  const void* codes = nullptr;   // two 4-bit codes a byte, the first in the upper half, or i8; null: there are none
  const float* table = nullptr;  // of 16 values; null: i8
  int64_t scale_elems = 0;       // of a row, that share a scale; they divide its length
  bool to_bf16 = false;
  // Writes the scales of `rows` rows from `row` on, rows behind each other. Returns false if an element may be neither
  // zero nor a normal number.
  bool (*scales)(const void* coded, int64_t row, int64_t rows, float* out) = nullptr;
};

// Makes the elements of a matrix that is stored in another form, such as 4-bit codes and scales. It is called from any
// thread, with ranges of some thousand elements.
struct MatrixDecoder {
  // Makes the elements of `range`, which are numbers of the dtype `elements`, the matrix's, and writes them to out,
  // rows `stride` elements apart, as `dtype`: the same, or f32.
  void (*decode)(const void* coded, const MatrixRange& range, DType elements, DType dtype, int64_t stride,
                 void* out) = nullptr;
  const void* coded = nullptr;
  CodedRows rows = {};
};

// A matrix as stored: rows of contiguous elements, `stride` elements apart; f32 or bf16.
struct Matrix {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t stride = 0;
  const MatrixDecoder* decoder = nullptr;  // makes the elements, instead of `data`
};

struct MatmulArgs {
  MatmulShape shape;
  Matrix a, b;
  // The tail's factors have no decoders, and are both bf16 where a and b are. tail_alpha * A' is rounded to the type of
  // A'.
  Matrix tail_a = {}, tail_b = {};
  float tail_alpha = 1;
  void* c = nullptr;  // [m, n] f32 or bf16; overlaps neither a nor b
  DType c_dtype = DType::kF32;
  int64_t c_stride = 0;
  float alpha = 1;
  const void* addend = nullptr;  // [m, n] f32 or bf16, or none; may be c itself with c's dtype and stride
  DType addend_dtype = DType::kF32;
  int64_t addend_stride = 0;
  const void* bias = nullptr;  // [n] f32 or bf16, or none
  DType bias_dtype = DType::kF32;
};

// Returns bytes of workspace that suffice for `largest` and for every product of the same kind with a smaller m. Pure,
// and the same on every CPU, so that a plan may be made for another machine.
[[nodiscard]] int64_t matmul_workspace_bytes(const MatmulShape& largest, DType a, DType b, int threads);
// Returns the same for products with a matrix that is decoded: each element is decoded shortly before it is packed, in
// the cache of the thread that packs it.
[[nodiscard]] int64_t decoding_matmul_workspace_bytes(const MatmulShape& largest, DType a, DType b, int threads);

// REQUIRES: workspace is 64-byte aligned, of matmul_workspace_bytes(shape, ..., pool.threads()) bytes, or of
// decoding_matmul_workspace_bytes(...).
void matmul(const MatmulArgs& args, std::byte* workspace, ThreadPool& pool);

// The way in which a product of two bf16 matrices is computed. Both sum in f32. It is a property of the machine, never
// a plan's choice: the two differ in the last bits. A product of bf16 with f32 always widens.
enum class Bf16Path { kNativeDot, kWidenToF32 };

// Returns the faster path of this CPU, measured in about a millisecond. Other work on the machine does not change the
// answer: runs of one job in several processes must agree on it to give the same bits.
[[nodiscard]] Bf16Path measure_bf16_path();

// Returns the result of the first call of measure_bf16_path(). Safe from any thread.
[[nodiscard]] Bf16Path choose_bf16_path();

// Fixes the path for this process (kNativeDot only if the CPU has it); nullopt goes back to the measured one.
// REQUIRES: no product is running.
void set_bf16_path(std::optional<Bf16Path> path);
[[nodiscard]] bool has_native_bf16_dot();

struct MatmulKernels;
// Does what matmul() does with kernels and path of the caller's choice, for tests and benchmarks.
// REQUIRES: this CPU runs `kernels`, and they have bf16 tiles if the path is kNativeDot and both matrices are bf16.
void matmul_with(const MatmulKernels& kernels, Bf16Path path, const MatmulArgs& args, std::byte* workspace,
                 ThreadPool& pool);

// Returns the flop/s of a product of two `size` x `size` matrices of `data` (f32 or bf16; `path` matters to bf16 only).
// Allocates and takes some tens of milliseconds: for `doctor` and the Machine, not for a step.
[[nodiscard]] double measure_matmul_flops(DType data, Bf16Path path, ThreadPool& pool, int64_t size = 1024);

}  // namespace spillway::cpu
