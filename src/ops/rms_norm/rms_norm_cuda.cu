// The kernels are bound by memory. Forward: x is read (its second reading hits the first cache) and y written, 4 bytes
// per element in bf16. Backward: x, dy and the addend are read and dx is written (8 bytes), the weight's gradient comes
// out of the same pass. Not yet measured.
#include "backend/cuda/reduce.cuh"
#include "backend/kernel.h"
#include "ops/column_sums.cuh"
#include "ops/rms_norm/grad_blocks.h"
#include "ops/rms_norm/operands.h"
#include "ops/weight_shift.h"

namespace spillway::ops {
namespace {

using namespace rms_norm_op;

// The teams of threads. A team normalises one group after another: a warp if groups are small, else the whole block.
// Its members take the vectors of a group in turn, the same ones in every pass over it.
constexpr int kThreads = 256;
constexpr int64_t kMaxOfWarp = 1024;

template <int kTeam>
__device__ float team_sum(float value) {
  if constexpr (kTeam == cuda::kWarp) {
    return cuda::warp_reduce(value, cuda::Sum());
  } else {
    return cuda::block_sum<kTeam>(value);
  }
}

// Calls f with the size of the teams as a constant.
template <typename Function>
void with_team(int64_t group, const Function& f) {
  if (group <= kMaxOfWarp) {
    f(std::integral_constant<int, cuda::kWarp>());
  } else {
    f(std::integral_constant<int, kThreads>());
  }
}

template <int kTeam, typename X, typename W>
__global__ void __launch_bounds__(kThreads)
    rms_norm_kernel(const X* x, const W* w, X* y, float* rstd, int64_t groups, int64_t group, float eps, float shift) {
  constexpr int kWidth = cuda::kVector<X, W>, kTeams = kThreads / kTeam;
  const int team = static_cast<int>(threadIdx.x) / kTeam, member = static_cast<int>(threadIdx.x) % kTeam;
  const int64_t index = int64_t{blockIdx.x} * kTeams + team;
  if (index >= groups) return;
  const X* from = x + index * group;
  float squares = 0;
  cuda::for_each_vector<kWidth>(group, member, kTeam, [&](cuda::Span<kWidth> span) {
    const cuda::Floats<kWidth> v = cuda::load(from, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares += v[i] * v[i];
  });
  const float factor = 1.0f / sqrtf(team_sum<kTeam>(squares) / static_cast<float>(group) + eps);
  if (member == 0) rstd[index] = factor;
  cuda::for_each_vector<kWidth>(group, member, kTeam, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> v = cuda::load(from, span);
    const cuda::Floats<kWidth> weight = cuda::load(w, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] = v[i] * factor * (weight[i] + shift);
    cuda::store(v, y + index * group, span);
  });
}

template <typename X, typename W>
struct Grad {
  const X* x;
  const W* w;
  const float* rstd;
  const X *dy, *addend;  // addend may be null
  X* dx;
  float* partial;  // [blocks, group]: each block's part of dw; null if not wanted
  int64_t groups, group, block_groups;
  float shift;  // of w
};

// Computes, with xhat = x * rstd, dx = rstd * (w * dy - xhat * mean(xhat * w * dy)) + addend, and adds xhat * dy to dw,
// in shared memory, where each member owns the columns of its vectors.
template <int kTeam, int kWidth, typename X, typename W>
__device__ void grad_of_group(const Grad<X, W>& p, int64_t index, int member, float* dw) {
  const int64_t at = index * p.group;
  const float rstd = p.rstd[index];
  float dot = 0;
  cuda::for_each_vector<kWidth>(p.group, member, kTeam, [&](cuda::Span<kWidth> span) {
    const auto x = cuda::load(p.x + at, span), w = cuda::load(p.w, span), dy = cuda::load(p.dy + at, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) dot += x[i] * (w[i] + p.shift) * dy[i];
  });
  const float pull = -rstd * rstd * rstd * team_sum<kTeam>(dot) / static_cast<float>(p.group);
  cuda::for_each_vector<kWidth>(p.group, member, kTeam, [&](cuda::Span<kWidth> span) {
    const auto x = cuda::load(p.x + at, span), w = cuda::load(p.w, span), dy = cuda::load(p.dy + at, span);
    cuda::Floats<kWidth> dx = {};
    if (p.addend != nullptr) dx = cuda::load(p.addend + at, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      dx[i] += x[i] * pull + (w[i] + p.shift) * dy[i] * rstd;
      if (p.partial != nullptr && i < span.count) dw[span.begin + i] += x[i] * rstd * dy[i];
    }
    cuda::store(dx, p.dx + at, span);
  });
}

template <int kTeam, typename X, typename W>
__global__ void __launch_bounds__(kThreads) rms_norm_grad_kernel(Grad<X, W> p) {
  constexpr int kWidth = cuda::kVector<X, W>, kTeams = kThreads / kTeam;
  const int team = static_cast<int>(threadIdx.x) / kTeam, member = static_cast<int>(threadIdx.x) % kTeam;
  auto* sums = reinterpret_cast<float*>(cuda::dynamic_shared());  // [kTeams, group]
  float* dw = sums + team * p.group;
  if (p.partial != nullptr) {
    cuda::for_each_vector<kWidth>(p.group, member, kTeam, [&](cuda::Span<kWidth> span) {
      for (int i = 0; i < span.count; ++i) dw[span.begin + i] = 0;
    });
  }
  const int64_t first = int64_t{blockIdx.x} * p.block_groups, end = std::min(p.groups, first + p.block_groups);
  for (int64_t index = first + team; index < end; index += kTeams) {
    grad_of_group<kTeam, kWidth>(p, index, member, dw);
  }
  if (p.partial == nullptr) return;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < p.group; i += kThreads) {
    float total = 0;
    for (int t = 0; t < kTeams; ++t) total += sums[t * p.group + i];
    p.partial[blockIdx.x * p.group + i] = total;
  }
}

}  // namespace

void rms_norm_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[kX], &w = args.inputs[kWeight], &y = args.outputs[0], &rstd = args.outputs[1];
  const auto eps = static_cast<float>(args.attributes.real("eps"));
  const float shift = weight_shift_of(args.attributes);
  const int64_t groups = rstd.elems(), group = w.shape[0];
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(w.dtype, [&]<typename W>(W*) {
      with_team(group, [&](auto team) {
        cuda::launch(rms_norm_kernel<team, X, W>, {div_ceil(groups, kThreads / team), kThreads}, args.stream, x.as<X>(),
                     w.as<W>(), y.as<X>(), rstd.as<float>(), groups, group, eps, shift);
      });
    });
  });
}

void rms_norm_grad_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[kX], &w = args.inputs[kWeight], &rstd = args.inputs[kRstd];
  const bool wants_weight = args.outputs.size() > 1;
  const int64_t groups = rstd.elems(), group = w.shape[0];
  auto* partial = wants_weight ? reinterpret_cast<float*>(args.workspace) : nullptr;
  int64_t blocks = 0;
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(w.dtype, [&]<typename W>(W*) {
      with_team(group, [&](auto team) {
        constexpr int kTeams = kThreads / team;
        const int64_t most = wants_weight ? kMaxGradBlocks : groups;
        const int64_t block_groups =
            align_up(std::max<int64_t>(1, div_ceil(groups, std::max<int64_t>(1, most))), kTeams);
        blocks = div_ceil(groups, block_groups);
        const int64_t shared = wants_weight ? kTeams * group * static_cast<int64_t>(sizeof(float)) : 0;
        const Grad<X, W> grad{.x = x.as<X>(),
                              .w = w.as<W>(),
                              .rstd = rstd.as<float>(),
                              .dy = args.inputs[kDy].as<X>(),
                              .addend = args.inputs[kXAddend].as<X>(),
                              .dx = args.outputs[0].as<X>(),
                              .partial = partial,
                              .groups = groups,
                              .group = group,
                              .block_groups = block_groups,
                              .shift = weight_shift_of(args.attributes)};
        cuda::launch(rms_norm_grad_kernel<team, X, W>, {blocks, kThreads, shared}, args.stream, grad);
      });
    });
  });
  if (wants_weight) add_blocks(partial, blocks, args.inputs[kWeightAddend], args.outputs[1], args.stream);
}

}  // namespace spillway::ops
