#include "base/parallel.h"
#include "ops/memory.h"
#include "ops/sequence_sum/operands.h"

namespace spillway::ops {

void sequence_sum_cpu(const KernelArgs& args) {
  const auto* x = args.inputs[sequence_sum_op::kX].as<float>();
  const TensorView& out = args.outputs[0];
  const SequenceTokens tokens(args, args.inputs[sequence_sum_op::kX]);
  args.threads->parallel_for(out.elems(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const TokenSpan span = tokens.of_row(row);
      double sum = 0;
      for (int64_t token = span.begin; token < span.end; ++token) sum += tokens.weighted(x[token], token);
      out.as<float>()[row] = static_cast<float>(sum);
    }
  });
}

void sequence_spread_cpu(const KernelArgs& args) {
  const TensorView& dy = args.inputs[sequence_sum_op::kX];
  const SequenceTokens tokens(args, args.outputs[0]);
  zero_tensor(args.outputs[0], *args.threads);
  auto* dx = args.outputs[0].as<float>();
  args.threads->parallel_for(dy.elems(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const TokenSpan span = tokens.of_row(row);
      for (int64_t token = span.begin; token < span.end; ++token)
        dx[token] = static_cast<float>(tokens.weighted(dy.as<float>()[row], token));
    }
  });
}

}  // namespace spillway::ops
