// The kernels are bound by the time of its launches, one for every kPieceNorms norms. Not yet measured.
#include <algorithm>

#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"
#include "base/index.h"

namespace spillway::ops {
namespace {

// The number of norms that one launch adds up: as many pointers as its parameters hold.
constexpr int kPieceNorms = 256;

struct Piece {
  const float* norms[kPieceNorms];
  int count;
  bool first, last;
};

// Adds to *sum in the order of the norms; the last piece's launch ends with the results.
__global__ void __launch_bounds__(kPieceNorms)
    clip_factor_kernel(Piece piece, double max_norm, double* sum, float* factor, float* norm) {
  __shared__ float squared[kPieceNorms];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < piece.count) squared[thread] = *piece.norms[thread];
  __syncthreads();
  if (thread > 0) return;
  double total = piece.first ? 0 : *sum;
  for (int i = 0; i < piece.count; ++i) total += squared[i];
  *sum = total;
  if (!piece.last) return;
  const double root = sqrt(total);
  *norm = static_cast<float>(root);
  *factor = static_cast<float>(max_norm > 0 ? fmin(1.0, max_norm / (root + 1e-6)) : 1.0);
}

}  // namespace

void clip_factor_cuda(const KernelArgs& args) {
  const double max_norm = args.attributes.real("max_norm");
  const auto norms = static_cast<int64_t>(args.inputs.size());
  int64_t begin = 0;
  do {
    const int64_t end = std::min(norms, begin + kPieceNorms);
    Piece piece{.count = static_cast<int>(end - begin), .first = begin == 0, .last = end == norms};
    for (int64_t i = begin; i < end; ++i) piece.norms[i - begin] = nth(args.inputs, i).as<float>();
    cuda::launch(clip_factor_kernel, {1, kPieceNorms}, args.stream, piece, max_norm,
                 reinterpret_cast<double*>(args.workspace), args.outputs[0].as<float>(), args.outputs[1].as<float>());
    begin = end;
  } while (begin < norms);
}

}  // namespace spillway::ops
