#include "ops/embedding_noise/embedding_noise.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/embedding_noise/draws.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void embedding_noise_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void embedding_noise_cuda(const KernelArgs& args);

namespace embedding_noise_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  constexpr const char* kName = "embedding_noise";
  if (const double alpha = attributes.real("alpha"); !(alpha >= 0))
    throw input_error(kName, "expected an alpha of 0 or more, got {}; set another", alpha);
  expect_real(kName, "x", *inputs[kX]);
  expect_rank(kName, "x", *inputs[kX], 2);
  expect_scalar(kName, "seed", *inputs[kSeed], DType::kI64);
  expect_same(kName, "seq_offsets", *inputs[kSeqOffsets], {DType::kI32, {inputs[kSeqOffsets]->shape.elems()}});
  return {*inputs[kX]};
}

void vjp(VjpContext& context) {
  if (context.wants(kX)) context.add(kX, context.cotangent(0));
}

const OpDef kEmbeddingNoise{.name = "embedding_noise",
                            .infer = infer,
                            .vjp = vjp,
                            .cost = memory_cost,
                            .in_place = {{0, kX}},
                            .cpu = embedding_noise_cpu,
                            .cuda = embedding_noise_cuda};

}  // namespace
}  // namespace embedding_noise_op

ValueId embedding_noise(Builder& builder, ValueId x, ValueId seed, ValueId seq_offsets, double alpha,
                        NoiseLength length, int64_t stream) {
  return builder.append_one(embedding_noise_op::kEmbeddingNoise, {x, seed, seq_offsets},
                            {{"alpha", alpha}, {"length", static_cast<int64_t>(length)}, {"stream", stream}});
}

}  // namespace spillway::ops
