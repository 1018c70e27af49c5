// The kernels are bound by memory: x is read, its second reading hits the first cache, and as much is written (4 bytes
// per element in bf16; 6 of the gradient). Not yet measured.
#include <algorithm>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "base/math.h"
#include "ops/fake_quantise/formats-inl.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace fake_quantise_op;

// The teams of threads: a team takes a group, a warp if groups are small, else the whole block.
constexpr int kThreads = 256;
constexpr int64_t kMaxOfWarp = 1024;

template <int kTeam, typename Op>
__device__ float team_reduce(float value, float neutral, Op op) {
  if constexpr (kTeam == cuda::kWarp) {
    return cuda::warp_reduce(value, op);
  } else {
    return cuda::block_reduce<kTeam>(value, neutral, op);
  }
}
template <int kTeam>
__device__ float team_sum(float value) {
  return team_reduce<kTeam>(value, 0.0f, cuda::Sum());
}
template <int kTeam>
__device__ float team_max(float value) {
  return team_reduce<kTeam>(value, cuda::kNothing, cuda::Max());
}

// Returns the ends of the format's range for a group.
template <typename Format, int kTeam, typename T>
__device__ FakeRange range_of(const T* x, int64_t group, int member) {
  constexpr int kWidth = cuda::kVector<T>;
  float negative_low = cuda::kNothing, high = cuda::kNothing;
  cuda::for_each_vector<kWidth>(group, member, kTeam, [&](cuda::Span<kWidth> span) {
    const cuda::Floats<kWidth> v = cuda::load(x, span);
    for (int i = 0; i < span.count; ++i) {
      negative_low = fmaxf(negative_low, -v[i]);
      high = fmaxf(high, v[i]);
    }
  });
  const float low = -team_max<kTeam>(negative_low);
  return Format::bounds({low, team_max<kTeam>(high)});
}

template <typename T>
struct Pass {
  const T *x, *dy;  // dy is null in the forward pass
  T* out;
  const int64_t* enabled;  // may be null
  const float* absmax;     // may be null
  int64_t groups, group;
};

template <typename Format, int kTeam, typename T>
__device__ void quantise_group(const Pass<T>& p, int64_t at, int member) {
  constexpr int kWidth = cuda::kVector<T>;
  const float most = p.absmax == nullptr ? 0.0f : *p.absmax;
  const typename Format::Scale scale = Format::scale(range_of<Format, kTeam>(p.x + at, p.group, member), most);
  cuda::for_each_vector<kWidth>(p.group, member, kTeam, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> v = cuda::load(p.x + at, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] = Format::value(Format::code(Format::position(v[i], scale), scale), scale);
    cuda::store(v, p.out + at, span);
  });
}

template <typename Format, int kTeam, typename T>
__device__ FakePulls pulls_of(const Pass<T>& p, int64_t at, int member, FakeRange range,
                              const typename Format::Scale& scale) {
  constexpr int kWidth = cuda::kVector<T>;
  float codes = 0, outside = 0, lows = 0, highs = 0;
  cuda::for_each_vector<kWidth>(p.group, member, kTeam, [&](cuda::Span<kWidth> span) {
    const auto v = cuda::load(p.x + at, span), d = cuda::load(p.dy + at, span);
    for (int i = 0; i < span.count; ++i) {
      const float u = Format::position(v[i], scale);
      const float inside = Format::is_outside(u, scale) ? 0.0f : 1.0f;
      codes += d[i] * (Format::code(u, scale) - inside * u);
      outside += d[i] * (1 - inside);
      lows += v[i] == range.low ? 1.0f : 0.0f;
      highs += v[i] == range.high ? 1.0f : 0.0f;
    }
  });
  const FakeSums sums{team_sum<kTeam>(codes), team_sum<kTeam>(outside)};
  lows = team_sum<kTeam>(lows);
  return Format::pulls(range, sums, lows, team_sum<kTeam>(highs));
}

template <typename Format, int kTeam, typename T>
__device__ void gradient_of_group(const Pass<T>& p, int64_t at, int member) {
  constexpr int kWidth = cuda::kVector<T>;
  const FakeRange range = range_of<Format, kTeam>(p.x + at, p.group, member);
  const typename Format::Scale scale = Format::scale(range, 0);
  FakePulls pulls{0, 0};
  if constexpr (Format::kPulls) pulls = pulls_of<Format, kTeam>(p, at, member, range, scale);
  cuda::for_each_vector<kWidth>(p.group, member, kTeam, [&](cuda::Span<kWidth> span) {
    const auto v = cuda::load(p.x + at, span);
    cuda::Floats<kWidth> d = cuda::load(p.dy + at, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (Format::is_outside(Format::position(v[i], scale), scale)) d[i] = 0;
      if (Format::kPulls && v[i] == range.low) d[i] += pulls.low;
      if (Format::kPulls && v[i] == range.high) d[i] += pulls.high;
    }
    cuda::store(d, p.out + at, span);
  });
}

template <typename Format, bool kIsGradient, int kTeam, typename T>
__global__ void __launch_bounds__(kThreads) fake_quantise_kernel(Pass<T> p) {
  constexpr int kWidth = cuda::kVector<T>;
  const int team = static_cast<int>(threadIdx.x) / kTeam, member = static_cast<int>(threadIdx.x) % kTeam;
  const int64_t index = int64_t{blockIdx.x} * (kThreads / kTeam) + team, at = index * p.group;
  if (index >= p.groups) return;
  if (p.enabled != nullptr && *p.enabled == 0) {
    const T* from = kIsGradient ? p.dy : p.x;
    cuda::for_each_vector<kWidth>(p.group, member, kTeam, [&](cuda::Span<kWidth> span) {
      cuda::store(cuda::load(from + at, span), p.out + at, span);
    });
  } else if constexpr (kIsGradient) {
    gradient_of_group<Format, kTeam>(p, at, member);
  } else {
    quantise_group<Format, kTeam>(p, at, member);
  }
}

template <typename Format, bool kIsGradient, typename T>
void launch_pass(const Pass<T>& pass, void* stream) {
  if (pass.group <= kMaxOfWarp) {
    cuda::launch(fake_quantise_kernel<Format, kIsGradient, cuda::kWarp, T>,
                 {div_ceil(pass.groups, kThreads / cuda::kWarp), kThreads}, stream, pass);
  } else {
    cuda::launch(fake_quantise_kernel<Format, kIsGradient, kThreads, T>, {pass.groups, kThreads}, stream, pass);
  }
}

template <typename T>
Pass<T> pass_of(const KernelArgs& args) {
  const TensorView& x = args.inputs[kX];
  const int64_t group = group_of(args.attributes, x.shape[x.shape.rank() - 1]);
  return {.x = x.as<T>(),
          .dy = nullptr,
          .out = args.outputs[0].as<T>(),
          .enabled = args.inputs[kEnabled].as<int64_t>(),
          .absmax = nullptr,
          .groups = x.elems() / group,
          .group = group};
}

// Writes the largest magnitude of each block of elements, or of the numbers of blocks.
template <typename T>
__global__ void __launch_bounds__(kThreads) absmax_kernel(const T* x, int64_t elems, int64_t block_elems, float* out) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t first = int64_t{blockIdx.x} * block_elems;
  float most = 0;
  cuda::for_each_vector<kWidth>(std::min(block_elems, elems - first), static_cast<int>(threadIdx.x), kThreads,
                                [&](cuda::Span<kWidth> span) {
                                  const cuda::Floats<kWidth> v = cuda::load(x + first, span);
                                  for (int i = 0; i < span.count; ++i) most = fmaxf(most, fabsf(v[i]));
                                });
  most = cuda::block_reduce<kThreads>(most, 0.0f, cuda::Max());
  if (threadIdx.x == 0) out[blockIdx.x] = most;
}

}  // namespace

void fake_quantise_cuda(const KernelArgs& args) {
  with_real(args.inputs[kX].dtype, [&]<typename T>(T*) {
    Pass<T> pass = pass_of<T>(args);
    pass.absmax = args.inputs[kAbsmax].as<float>();
    with_fake_format(format_of(args.attributes),
                     [&]<typename Format>(Format) { launch_pass<Format, false>(pass, args.stream); });
  });
}

void fake_quantise_grad_cuda(const KernelArgs& args) {
  with_real(args.inputs[kX].dtype, [&]<typename T>(T*) {
    Pass<T> pass = pass_of<T>(args);
    pass.dy = args.inputs[kDy].as<T>();
    with_fake_format(format_of(args.attributes), [&]<typename Format>(Format) {
      if constexpr (!Format::kPasses) launch_pass<Format, true>(pass, args.stream);
    });
  });
}

void absmax_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const int64_t blocks = div_ceil(x.elems(), kAbsmaxBlock);
  auto* of_blocks = reinterpret_cast<float*>(args.workspace);
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::launch(absmax_kernel<T>, {blocks, kThreads}, args.stream, x.as<T>(), x.elems(), kAbsmaxBlock, of_blocks);
  });
  cuda::launch(absmax_kernel<float>, {1, kThreads}, args.stream, of_blocks, blocks, blocks,
               args.outputs[0].as<float>());
}

}  // namespace spillway::ops
