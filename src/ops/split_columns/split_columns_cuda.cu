// The kernels are bound by memory: every element is read and written once. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/real.h"
#include "ops/split_columns/widths.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 256;

// One part: rows of `width` elements, `pitch` elements apart.
template <typename T>
struct Rows {
  T* data;
  int64_t pitch;
};

// Uses a block for each row of a group; writes zeros if there is nothing to copy.
template <typename T>
__global__ void __launch_bounds__(kThreads) copy_rows_kernel(Rows<const T> from, Rows<T> to, int64_t width) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t row = blockIdx.x;
  cuda::for_each_vector<kWidth>(width, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> v = {};
    if (from.data != nullptr) v = cuda::load(from.data + row * from.pitch, span);
    cuda::store(v, to.data + row * to.pitch, span);
  });
}

// Calls copy(part, first column of it, its width).
template <typename Copy>
void for_each_part(const KernelArgs& args, const Copy& copy) {
  const ColumnWidths widths(args.attributes);
  int64_t column = 0;
  for (size_t part = 0; part < widths.size(); ++part) {
    copy(part, column, widths[part]);
    column += widths[part];
  }
}

}  // namespace

void split_columns_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const int64_t groups = groups_of(args.attributes);
  with_real(x.dtype, [&]<typename T>(T*) {
    for_each_part(args, [&](size_t part, int64_t column, int64_t width) {
      cuda::launch(copy_rows_kernel<T>, {x.shape[0] * groups, kThreads}, args.stream,
                   Rows<const T>{x.as<T>() + column, x.shape[1] / groups}, Rows<T>{args.outputs[part].as<T>(), width},
                   width);
    });
  });
}

void join_columns_cuda(const KernelArgs& args) {
  const TensorView& out = args.outputs[0];
  const int64_t groups = groups_of(args.attributes);
  with_real(out.dtype, [&]<typename T>(T*) {
    for_each_part(args, [&](size_t part, int64_t column, int64_t width) {
      cuda::launch(copy_rows_kernel<T>, {out.shape[0] * groups, kThreads}, args.stream,
                   Rows<const T>{args.inputs[part].as<T>(), width},
                   Rows<T>{out.as<T>() + column, out.shape[1] / groups}, width);
    });
  });
}

}  // namespace spillway::ops
