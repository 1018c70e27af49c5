// The kernels are bound by memory. Forward: x is read (twice more from the first cache) and y written, 4 bytes per
// element in bf16. Backward: x, dy and the addend are read and dx is written (8 bytes); the sums over tokens come out
// of the same pass. Not yet measured.
#include "backend/cuda/reduce.cuh"
#include "backend/kernel.h"
#include "ops/column_sums.cuh"
#include "ops/layer_norm/operands.h"
#include "ops/modulation/sums.cuh"

namespace spillway::ops {
namespace {

constexpr int kThreads = 256;

// Calls f(span) for the vectors of a row that are this thread's, the same ones in every pass.
template <int kWidth, typename Function>
__device__ void for_my_vectors(int64_t width, const Function& f) {
  cuda::for_each_vector<kWidth>(width, static_cast<int>(threadIdx.x), kThreads, f);
}

// Uses a block for each row.
template <typename X, typename W>
__global__ void __launch_bounds__(kThreads)
    layer_norm_kernel(const X* x, RowFactors<W> factors, ModulationRows modulation, int64_t scale, int64_t shift,
                      float eps, X* y, float* statistics) {
  constexpr int kWidth = cuda::kVector<X, W>;
  const int64_t width = modulation.width;
  const int64_t sequence = modulation.blocks.sequence_of(blockIdx.x);
  factors.scale = modulation.part_of(sequence, scale);
  factors.shift = modulation.part_of(sequence, shift);
  const X* from = x + blockIdx.x * width;
  float sum = 0, squares = 0;
  for_my_vectors<kWidth>(width, [&](cuda::Span<kWidth> span) {
    const cuda::Floats<kWidth> v = cuda::load(from, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum += v[i];
  });
  const float mean = cuda::block_sum<kThreads>(sum) / static_cast<float>(width);
  for_my_vectors<kWidth>(width, [&](cuda::Span<kWidth> span) {
    const cuda::Floats<kWidth> v = cuda::load(from, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares += i < span.count ? (v[i] - mean) * (v[i] - mean) : 0.0f;
  });
  const float rstd = 1.0f / sqrtf(cuda::block_sum<kThreads>(squares) / static_cast<float>(width) + eps);
  if (threadIdx.x == 0) {
    statistics[2 * int64_t{blockIdx.x}] = mean;
    statistics[2 * int64_t{blockIdx.x} + 1] = rstd;
  }
  for_my_vectors<kWidth>(width, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> v = cuda::load(from, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] = (v[i] - mean) * rstd;
    if (factors.weight != nullptr) {
      const cuda::Floats<kWidth> w = cuda::load(factors.weight, span);
      cuda::Floats<kWidth> b = {};
      if (factors.bias != nullptr) b = cuda::load(factors.bias, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) v[i] = v[i] * (w[i] + factors.weight_shift) + b[i];
    }
    if (factors.scale != nullptr) {
      const cuda::Floats<kWidth> s = cuda::load(factors.scale, span), t = cuda::load(factors.shift, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) v[i] = v[i] * (1 + s[i]) + t[i];
    }
    cuda::store(v, y + blockIdx.x * width, span);
  });
}

template <typename X, typename W>
struct Grad {
  const X *x, *dy, *addend;  // addend may be null
  const W* weight;           // may be null
  const float* statistics;
  ModulationRows modulation;
  int64_t scale;
  float weight_shift;
  X* dx;
  float *products, *sums;  // [blocks, width], see layer_norm_cpu.cc; null if not wanted
};

// Uses a block of threads for each block of tokens. A thread has the same columns of all of them; their sums are in
// shared memory, products and then sums.
template <typename X, typename W>
__global__ void __launch_bounds__(kThreads) layer_norm_grad_kernel(Grad<X, W> p) {
  constexpr int kWidth = cuda::kVector<X, W>;
  const int64_t width = p.modulation.width;
  const TokenBlock block = p.modulation.blocks[blockIdx.x];
  const float* scale = p.modulation.part_of(block.sequence, p.scale);
  auto* products = reinterpret_cast<float*>(cuda::dynamic_shared());
  float* sums = products + width;
  const bool wants_sums = p.products != nullptr;
  if (wants_sums) {
    for_my_vectors<kWidth>(width, [&](cuda::Span<kWidth> span) {
      for (int i = 0; i < span.count; ++i) products[span.begin + i] = sums[span.begin + i] = 0;
    });
  }
  const auto gradient_of = [&](cuda::Floats<kWidth> d, cuda::Span<kWidth> span) {
    if (p.weight != nullptr) {
      const cuda::Floats<kWidth> w = cuda::load(p.weight, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) d[i] *= w[i] + p.weight_shift;
    }
    if (scale != nullptr) {
      const cuda::Floats<kWidth> s = cuda::load(scale, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) d[i] *= 1 + s[i];
    }
    return d;
  };
  for (int64_t token = block.begin; token < block.end; ++token) {
    const int64_t at = token * width;
    const float mean = p.statistics[2 * token], rstd = p.statistics[2 * token + 1];
    float g_sum = 0, gn_sum = 0;
    for_my_vectors<kWidth>(width, [&](cuda::Span<kWidth> span) {
      const cuda::Floats<kWidth> x = cuda::load(p.x + at, span), g = gradient_of(cuda::load(p.dy + at, span), span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        g_sum += g[i];  // zero past the end
        gn_sum += g[i] * ((x[i] - mean) * rstd);
      }
    });
    const float g_mean = cuda::block_sum<kThreads>(g_sum) / static_cast<float>(width);
    const float gn_mean = cuda::block_sum<kThreads>(gn_sum) / static_cast<float>(width);
    for_my_vectors<kWidth>(width, [&](cuda::Span<kWidth> span) {
      const cuda::Floats<kWidth> x = cuda::load(p.x + at, span), d = cuda::load(p.dy + at, span);
      const cuda::Floats<kWidth> g = gradient_of(d, span);
      cuda::Floats<kWidth> dx = {};
      if (p.addend != nullptr) dx = cuda::load(p.addend + at, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float n = (x[i] - mean) * rstd;
        dx[i] += rstd * (g[i] - g_mean - n * gn_mean);
        if (!wants_sums || i >= span.count) continue;
        products[span.begin + i] += d[i] * n;
        sums[span.begin + i] += d[i];
      }
      cuda::store(dx, p.dx + at, span);
    });
  }
  if (!wants_sums) return;
  for_my_vectors<kWidth>(width, [&](cuda::Span<kWidth> span) {
    for (int i = 0; i < span.count; ++i) {
      const int64_t column = span.begin + i;
      p.products[blockIdx.x * width + column] = products[column];
      p.sums[blockIdx.x * width + column] = sums[column];
    }
  });
}

}  // namespace

void layer_norm_cuda(const KernelArgs& args) {
  using namespace layer_norm_op;
  const TensorView &x = args.inputs[kX], &weight = args.inputs[kWeight];
  const ModulationRows modulation(x, args.inputs[kModulation], args.inputs[kSeqOffsets], kMaxGpuBlocks);
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(weight.dtype, [&]<typename W>(W*) {
      cuda::launch(layer_norm_kernel<X, W>, {x.shape[0], kThreads}, args.stream, x.as<X>(),
                   factors_of<W>(weight, args.inputs[kBias], args.attributes), modulation,
                   args.attributes.integer("scale"), args.attributes.integer("shift"),
                   static_cast<float>(args.attributes.real("eps")), args.outputs[0].as<X>(),
                   args.outputs[1].as<float>());
    });
  });
}

void layer_norm_grad_cuda(const KernelArgs& args) {
  using namespace layer_norm_op;
  const TensorView &x = args.inputs[kGradX], &weight = args.inputs[kGradWeight];
  const ModulationRows modulation(x, args.inputs[kGradModulation], args.inputs[kGradSeqOffsets], kMaxGpuBlocks);
  const int64_t width = x.shape[1], blocks = modulation.blocks.bound();
  const bool wants_sums = args.outputs.size() > 1;
  auto* const products = wants_sums ? reinterpret_cast<float*>(args.workspace) : nullptr;
  float* const sums = wants_sums ? products + blocks * width : nullptr;
  const int64_t shared = wants_sums ? 2 * width * static_cast<int64_t>(sizeof(float)) : 0;
  const int64_t scale = args.attributes.integer("scale"), shift = args.attributes.integer("shift");
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(weight.dtype, [&]<typename W>(W*) {
      const Grad<X, W> grad{.x = x.as<X>(),
                            .dy = args.inputs[kGradDy].as<X>(),
                            .addend = args.inputs[kGradAddend].as<X>(),
                            .weight = weight.as<W>(),
                            .statistics = args.inputs[kGradStatistics].as<float>(),
                            .modulation = modulation,
                            .scale = scale,
                            .weight_shift = weight_shift_of(args.attributes),
                            .dx = args.outputs[0].as<X>(),
                            .products = products,
                            .sums = sums};
      cuda::launch(layer_norm_grad_kernel<X, W>, {blocks, kThreads, shared}, args.stream, grad);
    });
  });
  if (!wants_sums) return;
  if (modulation.rows != nullptr) {
    add_parts(modulation, {scale, products}, {shift, sums}, args.inputs[kGradFirstAddend], args.outputs[kFirstSum],
              args.stream);
  } else {
    add_blocks(products, blocks, args.inputs[kGradFirstAddend], args.outputs[kFirstSum], args.stream);
    add_blocks(sums, blocks, args.inputs[kGradSecondAddend], args.outputs[kSecondSum], args.stream);
  }
}

}  // namespace spillway::ops
