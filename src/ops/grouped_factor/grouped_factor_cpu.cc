// An expert's rows of A lie together, and are multiplied as they are. Those of B do not: all experts' matrices are put
// together in the workspace first, or taken apart from it, in one pass over the factor.
#include "base/math.h"
#include "ops/grouped_factor/operands.h"
#include "ops/grouped_linear/rows_cpu.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using grouped_factor_op::FactorLayout;

constexpr int64_t kFactorGrain = 16;  // rows of a factor

int64_t packed_elems(const FactorLayout& matrix, int64_t experts) { return experts * matrix.rows * matrix.columns; }

// Calls move(packed, place) for the elements of all experts' matrices: where one is among matrices [rows, columns] that
// follow one another, and where in the factor.
template <typename Move>
void for_elements(const FactorLayout& matrix, int64_t experts, ThreadPool& threads, const Move& move) {
  threads.parallel_for(matrix.rows, kFactorGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t place = matrix.first + row * matrix.row_stride;
      for (int64_t column = 0; column < matrix.columns; ++column) {
        for (int64_t expert = 0; expert < experts; ++expert)
          move((expert * matrix.rows + row) * matrix.columns + column,
               place + column * matrix.column_stride + expert * matrix.expert_stride);
      }
    }
  });
}

// Writes the rows of a factor that no matrix has: the addend's, or zeros.
void write_rows_beside(const FactorLayout& matrix, const TensorView& addend, const TensorView& out,
                       ThreadPool& threads) {
  const int64_t first = matrix.first / out.shape[1];
  grouped_linear_op::write_other_rows(addend, out, out.shape[1], out.shape[0], {first, first + matrix.rows}, threads);
}

}  // namespace

void grouped_factor_cpu(const KernelArgs& args) {
  using namespace grouped_factor_op;
  const TensorView& factor = args.inputs[kFactor];
  const int64_t experts = args.inputs[kOffsets].elems() - 1;
  const FactorLayout matrix = layout_of(factor.shape, experts, args.attributes);
  const auto* from = factor.as<std::byte>();
  std::byte* workspace = args.workspace;
  if (matrix.column_stride != 1) {
    with_real(factor.dtype, [&]<typename T>(T*) {
      T* const packed = reinterpret_cast<T*>(args.workspace);
      for_elements(matrix, experts, *args.threads, [&](int64_t to, int64_t at) { packed[to] = factor.as<T>()[at]; });
    });
    from = args.workspace;
    workspace += align_up(packed_elems(matrix, experts) * size_of(factor.dtype), 64);
  }
  const int64_t bytes = matrix.rows * matrix.columns * size_of(factor.dtype);
  const TensorView& x = args.inputs[kX];
  const Sizes sizes = sizes_of(matrix, args.attributes);
  grouped_linear_op::multiply_rows(
      args, sizes, experts,
      [&](int64_t expert) {
        return cpu::Matrix{from + expert * bytes, factor.dtype, matrix.columns};
      },
      grouped_linear_op::workspace_of_rows(sizes, x.shape, x.dtype, factor.dtype, args.threads->threads()), workspace,
      static_cast<float>(args.attributes.real("alpha")));
}

void grouped_factor_grad_cpu(const KernelArgs& args) {
  using namespace grouped_factor_op;
  using grouped_linear_op::RowRange, grouped_linear_op::rows_at, grouped_linear_op::product_over_rows;
  const TensorView &x = args.inputs[kGradX], &dy = args.inputs[kDy], &addend = args.inputs[kGradAddend],
                   &out = args.outputs[0];
  const int64_t experts = args.inputs[kGradOffsets].elems() - 1, pairs = args.attributes.integer("pairs");
  const FactorLayout matrix = layout_of(out.shape, experts, args.attributes);
  const Sizes sizes{.pairs = pairs, .in = matrix.columns, .out = matrix.rows};
  const bool is_packed = matrix.column_stride != 1;
  auto* const packed = reinterpret_cast<float*>(args.workspace);
  std::byte* workspace = args.workspace;
  if (is_packed) workspace += align_up(packed_elems(matrix, experts) * size_of(DType::kF32), 64);
  const bool adds = !is_packed && addend.data != nullptr;
  const auto gradient_of = [&](int64_t expert, const RowRange& own, std::byte* space, ThreadPool& threads) {
    const RowRange rows{expert * matrix.rows, (expert + 1) * matrix.rows};
    cpu::matmul({.shape = product_over_rows(sizes, own.end - own.begin),
                 .a = {rows_at(dy, sizes.out, own).data, dy.dtype, sizes.out},
                 .b = {rows_at(x, sizes.in, own).data, x.dtype, sizes.in},
                 .c = is_packed ? packed + rows.begin * sizes.in : rows_at(out, sizes.in, rows).data,
                 .c_dtype = is_packed ? DType::kF32 : out.dtype,
                 .c_stride = sizes.in,
                 .alpha = static_cast<float>(args.attributes.real("alpha")),
                 .addend = adds ? rows_at(addend, sizes.in, rows).data : nullptr,
                 .addend_dtype = addend.dtype,
                 .addend_stride = sizes.in},
                space, threads);
  };
  grouped_linear_op::for_experts(args.inputs[kGradOffsets], 0, experts, x.shape[0] * pairs,
                                 workspace_over_rows(sizes, x.shape, dy.dtype, x.dtype, args.threads->threads()),
                                 workspace, *args.threads, gradient_of);
  if (!is_packed) return;
  write_rows_beside(matrix, addend, out, *args.threads);
  with_real(out.dtype, [&]<typename Out>(Out*) {
    with_real(addend.dtype, [&]<typename Addend>(Addend*) {
      for_elements(matrix, experts, *args.threads, [&](int64_t from, int64_t at) {
        const float before = addend.data == nullptr ? 0.0f : to_float(addend.as<Addend>()[at]);
        if constexpr (std::is_same_v<Out, float>) {
          out.as<Out>()[at] = packed[from] + before;
        } else {
          out.as<Out>()[at] = to_bf16(packed[from] + before);
        }
      });
    });
  });
}

}  // namespace spillway::ops
