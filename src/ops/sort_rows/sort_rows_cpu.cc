#include "backend/kernel.h"
#include "base/parallel.h"
#include "ops/sort_rows/rank.h"

namespace spillway::ops {
namespace {

// Calls move(i, rank of x[i]) for each row.
template <typename Move>
void for_each_rank(const KernelArgs& args, const Move& move) {
  constexpr int64_t kGrain = 64;
  const TensorView& x = args.inputs[0];
  args.threads->parallel_for(x.elems(), kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) move(i, rank_of(x.as<float>(), x.elems(), i));
  });
}

}  // namespace

void sort_rows_cpu(const KernelArgs& args) {
  const auto* x = args.inputs[0].as<float>();
  auto* out = args.outputs[0].as<float>();
  for_each_rank(args, [&](int64_t i, int64_t rank) { out[rank] = x[i]; });
}

void sort_rows_grad_cpu(const KernelArgs& args) {
  const auto* dy = args.inputs[1].as<float>();
  auto* dx = args.outputs[0].as<float>();
  for_each_rank(args, [&](int64_t i, int64_t rank) { dx[i] = dy[rank]; });
}

}  // namespace spillway::ops
