#include "ops/grouped_linear/rows_cpu.h"
#include "ops/quantised_grouped_linear/operands.h"

namespace spillway::ops {

void quantised_grouped_linear_cpu(const KernelArgs& args) {
  using namespace quantised_grouped_linear_op;
  const CodedWeights weights = coded_weights(args.attributes);
  const Sizes sizes = sizes_of(args.inputs[kX].shape, weights.shape, args.attributes);
  QuantisedWeight weight;
  cpu::MatrixDecoder decoder;
  multiply_rows(
      args, sizes, weights.experts(std::ssize(args.inputs)),
      [&](int64_t i) {
        weight = weights.weight_of(args, i);
        decoder = decoder_of(weight);
        return cpu::Matrix{nullptr, args.inputs[kX].dtype, weight.columns, &decoder};
      },
      args.workspace);
}

}  // namespace spillway::ops
