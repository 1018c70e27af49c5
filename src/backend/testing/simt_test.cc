// Tests the primitives of kernels, and the emulation that tests run them in.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/map.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/tensor_cores.cuh"

using namespace spillway;

namespace {

template <typename T>
struct Triple {
  static constexpr int kWidth = cuda::kVector<T>;
  const T* x;
  T* y;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    auto v = cuda::load(x, span);
    for (int i = 0; i < kWidth; ++i) v[i] *= 3;
    cuda::store(v, y, span);
  }
};

__global__ void reduce_kernel(const float* x, float* sums, float* maxima) {
  const int thread = static_cast<int>(threadIdx.x);
  sums[thread] = cuda::block_sum<96>(x[thread]);
  maxima[thread] = cuda::block_reduce<96>(x[thread], -1e30f, cuda::Max());
  sums[thread] += 1000 * cuda::warp_reduce<8>(x[thread], cuda::Sum());
}

__global__ void half_a_barrier_kernel() {
  if (threadIdx.x < 32) __syncthreads();
}
__global__ void two_barriers_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void half_a_warp_kernel(float* out) {
  if (threadIdx.x < 16) *out = __shfl_xor_sync(cuda::kAllLanes, 1.0f, 1);
}
__global__ void past_shared_kernel(int64_t elems) { reinterpret_cast<float*>(cuda::dynamic_shared())[elems] = 1; }
__global__ void out_of_range_kernel() { cuda::require(threadIdx.x < 5); }
// Computes out [16, 16] = left [16, 16] right' through shared memory: right' is [16, 16] too, and `transposed` reads it
// so.
__global__ void product_kernel(const bf16* left, const bf16* right, bool transposed, float* out) {
  using Tile = cuda::MmaTile<16, 64>;
  const Tile a{reinterpret_cast<bf16*>(cuda::dynamic_shared())}, b{a.data + 16 * 64};
  a.start_loading<32>(left, 16, 16, 16);
  b.start_loading<32>(right, 16, 16, 16);
  cuda::commit_copies();
  cuda::wait_for_copies<0>();
  __syncthreads();
  cuda::MmaRight rights[2];
  if (transposed) {
    b.right_of_columns(0, 0, rights);
  } else {
    b.right_of_rows(0, 0, rights);
  }
  for (int half = 0; half < 2; ++half) {
    cuda::MmaSums sums;
    cuda::multiply_add(sums, a.left(0, 0), rights[half]);
    for (int i = 0; i < 4; ++i) out[cuda::MmaSums::row(i) * 16 + 8 * half + cuda::MmaSums::column(i)] = sums.at[i];
  }
}
// Reads bytes that are still on their way.
__global__ void early_kernel(const bf16* from, bf16* to) {
  auto* shared = reinterpret_cast<bf16*>(cuda::dynamic_shared());
  cuda::start_copy(shared, from, true);
  cuda::commit_copies();
  cuda::wait_for_copies<1>();
  if (threadIdx.x == 0) to[0] = shared[0];
  __syncthreads();
  cuda::wait_for_copies<0>();
  if (threadIdx.x == 0) to[1] = shared[0];
}

__global__ void last_block_kernel(unsigned* last) { *last = blockIdx.x; }

}  // namespace

TEST_CASE("a map covers every element once, whatever the length and the alignment") {
  for (const int64_t elems : {0, 1, 7, 8, 9, 255, 4096, 4097}) {
    for (const int64_t offset : {0, 1, 4}) {
      std::vector<float> x(static_cast<size_t>(elems + offset)), y(x.size() + 1, -1.0f);
      std::iota(x.begin(), x.end(), 0.0f);
      cuda::map(elems, Triple<float>{x.data() + offset, y.data() + offset}, nullptr);
      for (int64_t i = 0; i < elems + offset; ++i) {
        const auto at = static_cast<size_t>(i);
        REQUIRE(y[at] == (i < offset ? -1.0f : 3 * x[at]));
      }
      REQUIRE(y.back() == -1.0f);
    }
  }
}

TEST_CASE("reductions give every thread the result, of the block, of a warp and of neighbouring lanes") {
  std::vector<float> x(96), sums(96), maxima(96);
  std::iota(x.begin(), x.end(), 0.0f);
  cuda::launch(reduce_kernel, {1, 96}, nullptr, x.data(), sums.data(), maxima.data());
  for (size_t i = 0; i < 96; ++i) {
    const size_t first = i / 8 * 8;
    CHECK(sums[i] == 95 * 48 + 1000.0f * static_cast<float>(8 * first + 28));
    CHECK(maxima[i] == 95);
  }
}

TEST_CASE("the emulation names what a GPU would hang on or corrupt") {
  float out = 0;
  CHECK_THROWS_WITH_AS(cuda::launch(half_a_barrier_kernel, {1, 64}, nullptr),
                       "simt: 32 of 64 threads of block 0 wait at a barrier that the others never reach",
                       std::logic_error);
  CHECK_THROWS_AS(cuda::launch(two_barriers_kernel, {1, 64}, nullptr), std::logic_error);
  CHECK_THROWS_WITH_AS(cuda::launch(half_a_warp_kernel, {1, 32}, nullptr, &out),
                       "simt: 16 of 32 threads of block 0 wait at a barrier that the others never reach",
                       std::logic_error);
  CHECK_THROWS_WITH_AS(cuda::launch(past_shared_kernel, {1, 32, 64}, nullptr, 16),
                       "simt: shared memory was written past its end", std::logic_error);
  CHECK_THROWS_WITH_AS(cuda::launch(out_of_range_kernel, {1, 32}, nullptr), "simt: a kernel met an index out of range",
                       std::logic_error);
  CHECK_THROWS_WITH_AS(cuda::launch(out_of_range_kernel, {1, 40}, nullptr), "simt: 40 threads", std::logic_error);
  CHECK_NOTHROW(cuda::launch(past_shared_kernel, {1, 32, 64}, nullptr, 15));
}

TEST_CASE("the emulation runs blocks in an order that the seed decides") {
  bool differs = false;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    unsigned last = 0;
    simt::set_order(seed);
    cuda::launch(last_block_kernel, {100, 32}, nullptr, &last);
    differs = differs || last != 99;
  }
  CHECK(differs);
}

TEST_CASE("a product of a warp is that of its operands, as they lie and transposed") {
  alignas(16) std::array<bf16, 256> left{}, right{};
  for (size_t i = 0; i < 256; ++i) {
    left[i] = to_bf16(static_cast<float>(i % 13) - 6);
    right[i] = to_bf16(static_cast<float>(i % 7) - 3);
  }
  for (const bool transposed : {false, true}) {
    std::vector<float> out(256);
    cuda::launch(product_kernel, {1, 32, 2 * 16 * 64 * 2}, nullptr, left.data(), right.data(), transposed, out.data());
    int wrong = 0;
    for (size_t row = 0; row < 16; ++row) {
      for (size_t column = 0; column < 16; ++column) {
        float sum = 0;
        for (size_t k = 0; k < 16; ++k) {
          sum += to_float(left[16 * row + k]) * to_float(transposed ? right[16 * k + column] : right[16 * column + k]);
        }
        wrong += out[16 * row + column] != sum;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a copy to shared memory has not happened before it is waited for") {
  const std::vector<bf16> from(8, to_bf16(2));
  std::vector<bf16> to(2);
  alignas(16) bf16 aligned[8];
  std::copy(from.begin(), from.end(), aligned);
  cuda::launch(early_kernel, {1, 32, 16}, nullptr, static_cast<const bf16*>(aligned), to.data());
  CHECK(std::isnan(to_float(to[0])));  // what shared memory starts with
  CHECK(to_float(to[1]) == 2);
}
