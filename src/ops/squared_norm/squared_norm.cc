#include "ops/squared_norm/squared_norm.h"

#include <algorithm>

#include "backend/kernel.h"
#include "base/math.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"
#include "ops/squared_norm/order.h"

namespace spillway::ops {

void squared_norm_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void squared_norm_cuda(const KernelArgs& args);
void block_squares_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void block_squares_cuda(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void squared_norm_of_blocks_cuda(const KernelArgs& args);

namespace squared_norm_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_real("squared_norm", "x", *inputs[0]);
  return {{DType::kF32, {1}}};
}

int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes&, int) {
  return div_ceil(inputs[0]->shape.elems(), kNormBlockElems) * static_cast<int64_t>(sizeof(float));
}

const OpDef kSquaredNorm{.name = "squared_norm",
                         .infer = infer,
                         .cost = memory_cost,
                         .workspace_bytes = workspace_bytes,
                         .cpu = squared_norm_cpu,
                         .cuda = squared_norm_cuda};

std::vector<ValueType> infer_blocks(TypeList inputs, const Attributes&) {
  expect_real("block_squares", "x", *inputs[0]);
  return {{DType::kF32, {div_ceil(inputs[0]->shape.elems(), kNormBlockElems)}}};
}

const OpDef kBlockSquares{.name = "block_squares",
                          .infer = infer_blocks,
                          .cost = memory_cost,
                          .cpu = block_squares_cpu,
                          .cuda = block_squares_cuda};

std::vector<ValueType> infer_total(TypeList inputs, const Attributes&) {
  for (const ValueType* sums : inputs) expect_f32("squared_norm_of_blocks", "sums of blocks", *sums);
  return {{DType::kF32, {1}}};
}

// Returns the room for all sums in a row.
int64_t total_workspace(TypeList inputs, TypeList, const Attributes&, int) {
  int64_t bytes = 0;
  for (const ValueType* sums : inputs) bytes += sums->bytes();
  return bytes;
}

void add_blocks(const KernelArgs& args) {
  auto* const all = reinterpret_cast<float*>(args.workspace);
  int64_t count = 0;
  for (const TensorView& sums : args.inputs) {
    std::copy_n(sums.as<float>(), sums.elems(), all + count);
    count += sums.elems();
  }
  *args.outputs[0].as<float>() = static_cast<float>(total_of(all, count));
}

const OpDef kSquaredNormOfBlocks{.name = "squared_norm_of_blocks",
                                 .infer = infer_total,
                                 .cost = memory_cost,
                                 .workspace_bytes = total_workspace,
                                 .cpu = add_blocks,
                                 .cuda = squared_norm_of_blocks_cuda};

}  // namespace
}  // namespace squared_norm_op

ValueId squared_norm(Builder& builder, ValueId x) { return builder.append_one(squared_norm_op::kSquaredNorm, {x}); }

ValueId block_squares(Builder& builder, ValueId x) { return builder.append_one(squared_norm_op::kBlockSquares, {x}); }

ValueId squared_norm_of_blocks(Builder& builder, std::span<const ValueId> sums) {
  return builder.append_one(squared_norm_op::kSquaredNormOfBlocks, {sums.begin(), sums.end()});
}

}  // namespace spillway::ops
