#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/sizes.h"
#include "ops/matmul/cpu/kernels.h"
#include "ops/matmul/cpu/product.h"

namespace spillway::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Times one row block by one column block whose panels lie in the first-level cache.
class TileTimer {
 public:
  explicit TileTimer(const MatmulKernels::Tiles& tiles)
      : tile_(tiles.wide[tiles.rows - 1]), rows_(tiles.rows), columns_(tiles.columns) {
    SPILLWAY_CHECK(rows_ <= MatmulKernels::kMaxRows && columns_ <= MatmulKernels::kMaxColumns, "{} x {}", rows_,
                   columns_);
    panel_ = tiles.packed(left_, rows_);
  }

  // Takes a few microseconds: short enough that most runs see the CPU alone, whatever else runs on the machine.
  void run() {
    constexpr int kTimes = 10;
    const Clock::time_point begin = Clock::now();
    for (int time = 0; time < kTimes; ++time) tile_(panel_, right_, kUnits, sums_, columns_, true);
    best_ = std::min(best_, seconds_since(begin));
  }
  // Returns the best time of a unit's words in one sum.
  [[nodiscard]] double best_seconds() const { return best_ / (rows_ * columns_); }

 private:
  static constexpr int64_t kUnits = 128;

  MatmulKernels::Tile tile_;
  int rows_, columns_;
  TileLeft panel_{};
  double best_ = std::numeric_limits<double>::infinity();
  alignas(64) float left_[kUnits * MatmulKernels::kMaxRows] = {};
  alignas(64) float right_[kUnits * MatmulKernels::kMaxColumns] = {};
  alignas(64) float sums_[MatmulKernels::kMaxRows * MatmulKernels::kMaxColumns] = {};
};

// The fixed path; -1: the measured path.
std::atomic<int> fixed_path{-1};

}  // namespace

Bf16Path measure_bf16_path() {
  const MatmulKernels& kernels = best_matmul_kernels();
  if (!kernels.has_bf16()) return Bf16Path::kWidenToF32;
  TileTimer native(kernels.bf16), f32(kernels.f32);
  // Takes turns, so that a time in which the core is slow or shared does not count for one of them alone.
  constexpr int kRuns = 64;
  for (int run = 0; run < kRuns; ++run) {
    native.run();
    f32.run();
  }
  // A unit of the native path is two steps of k, of f32 one.
  return native.best_seconds() <= 2 * f32.best_seconds() ? Bf16Path::kNativeDot : Bf16Path::kWidenToF32;
}

bool has_native_bf16_dot() { return best_matmul_kernels().has_bf16(); }

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
  const int64_t elems = size * size;
  auto a = make_vector<std::byte>(elems * size_of(data)), b = a;
  auto c = make_vector<float>(elems);
  MatmulArgs args;
  args.shape = {size, size, size, false, true};
  args.a = {a.data(), data, size};
  args.b = {b.data(), data, size};
  args.c = c.data();
  args.c_stride = size;
  auto memory = make_vector<std::byte>(matmul_workspace_bytes(args.shape, data, data, pool.threads()) + 64);
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
