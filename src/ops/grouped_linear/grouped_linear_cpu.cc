#include "ops/grouped_linear/rows_cpu.h"

namespace spillway::ops {

void grouped_linear_cpu(const KernelArgs& args) {
  using namespace grouped_linear_op;
  const TensorView& x = args.inputs[kX];
  const std::span<const TensorView> weights = args.inputs.subspan(kFirstWeight);
  const Sizes sizes = sizes_of(x.shape, weights[0].shape, args.attributes);
  multiply_rows(
      args, sizes, std::ssize(weights),
      [&](int64_t i) {
        const TensorView& weight = weights[static_cast<size_t>(i)];
        return cpu::Matrix{weight.data, weight.dtype, weight.shape[1]};
      },
      workspace_of_rows(sizes, x.shape, x.dtype, weights[0].dtype, args.threads->threads()), args.workspace);
}

// dW = dY' X over the expert's rows, of which there may be none.
void grouped_linear_grad_cpu(const KernelArgs& args) {
  using namespace grouped_linear_op;
  const TensorView &x = args.inputs[kGradX], &dy = args.inputs[kDy], &addend = args.inputs[kGradAddend],
                   &out = args.outputs[0];
  const int64_t expert = args.attributes.integer("first_expert"), pairs = args.attributes.integer("pairs");
  const Sizes sizes{.pairs = pairs, .in = out.shape[1], .out = out.shape[0]};
  const RowRange own = rows_of(args.inputs[kGradOffsets], expert, expert + 1, x.shape[0] * pairs);
  cpu::matmul({.shape = product_over_rows(sizes, own.end - own.begin),
               .a = {rows_at(dy, sizes.out, own).data, dy.dtype, sizes.out},
               .b = {rows_at(x, sizes.in, own).data, x.dtype, sizes.in},
               .c = out.data,
               .c_dtype = out.dtype,
               .c_stride = sizes.in,
               .addend = addend.data,
               .addend_dtype = addend.dtype,
               .addend_stride = sizes.in},
              args.workspace, *args.threads);
}

}  // namespace spillway::ops
