#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <vector>

#include "backend/cpu/matmul.h"
#include "backend/cpu/matmul_kernels.h"
#include "base/error.h"

namespace spillway::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// The best time of a few runs of a tile whose panels lie in the first-level cache: what the CPU can do, whatever else
// runs on the machine.
double tile_seconds(MatmulKernels::Tile tile, int rows, int columns) {
  constexpr int64_t kUnits = 128;
  constexpr int kTimes = 100, kRuns = 8;
  alignas(64) float left[kUnits * MatmulKernels::kMostRows] = {}, right[kUnits * MatmulKernels::kMostColumns] = {};
  alignas(64) float sums[MatmulKernels::kMostRows * MatmulKernels::kMostColumns] = {};
  SPILLWAY_CHECK(rows <= MatmulKernels::kMostRows && columns <= MatmulKernels::kMostColumns, "{} x {}", rows, columns);
  const TileLeft panel{left, sizeof(float), rows * static_cast<int64_t>(sizeof(float))};
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    const Clock::time_point begin = Clock::now();
    for (int time = 0; time < kTimes; ++time) tile(panel, right, kUnits, sums, columns, true);
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

Bf16Path measure_bf16_path() {
  const MatmulKernels& kernels = best_matmul_kernels();
  if (kernels.bf16 == nullptr) return Bf16Path::kWidenToF32;
  const double native = tile_seconds(kernels.bf16[kernels.rows - 1], kernels.rows, kernels.columns);
  const double f32 = tile_seconds(kernels.f32[kernels.rows - 1], kernels.rows, kernels.columns);
  // A unit of the native path is two steps of k, of f32 one.
  return native <= 2 * f32 ? Bf16Path::kNativeDot : Bf16Path::kWidenToF32;
}

// -1: the measured path.
std::atomic<int> fixed_path{-1};

}  // namespace

bool has_native_bf16_dot() { return best_matmul_kernels().bf16 != nullptr; }

Bf16Path choose_bf16_path() {
  if (const int path = fixed_path; path >= 0) return static_cast<Bf16Path>(path);
  static const Bf16Path kMeasured = measure_bf16_path();
  return kMeasured;
}

void set_bf16_path(std::optional<Bf16Path> path) {
  SPILLWAY_CHECK(path != Bf16Path::kNativeDot || has_native_bf16_dot(), "this CPU has no bf16 dot product");
  fixed_path = path ? static_cast<int>(*path) : -1;
}

double measure_matmul_flops(DType data, Bf16Path path, ThreadPool& pool, int64_t size) {
  constexpr int kRuns = 5;
  const size_t elem_bytes = static_cast<size_t>(size_of(data));
  const auto elems = static_cast<size_t>(size * size);
  std::vector<std::byte> a(elems * elem_bytes), b(elems * elem_bytes);
  std::vector<float> c(elems);
  MatmulArgs args;
  args.shape = {size, size, size, false, true};
  args.a = {a.data(), data, size};
  args.b = {b.data(), data, size};
  args.c = c.data();
  args.c_stride = size;
  std::vector<std::byte> memory(static_cast<size_t>(matmul_workspace_bytes(args.shape, data, data, pool.threads())) +
                                64);
  std::byte* workspace = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;

  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    const Clock::time_point begin = Clock::now();
    matmul_with(best_matmul_kernels(), path, args, workspace, pool);
    best = std::min(best, seconds_since(begin));
  }
  return 2.0 * static_cast<double>(size * size * size) / best;
}

}  // namespace spillway::cpu
