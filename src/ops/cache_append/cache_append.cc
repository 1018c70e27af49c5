#include "ops/cache_append/cache_append.h"

#include "backend/kernel.h"
#include "ops/cache_append/operands.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void cache_append_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void cache_append_cuda(const KernelArgs& args);

namespace cache_append_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  const ValueType &cache = *inputs[kCache], &x = *inputs[kX];
  expect_real("cache_append", "cache", cache);
  expect_rank("cache_append", "cache", cache, 2);
  expect_same("cache_append", "cache", cache, {cache.dtype, cache.shape});
  expect_real("cache_append", "x", x);
  expect_rank("cache_append", "x", x, 2);
  expect_same("cache_append", "x", x, {x.dtype, {x.shape[0], cache.shape[1]}, x.axis});
  expect_same("cache_append", "rows", *inputs[kRows], {DType::kI32, {x.shape[0]}, x.axis});
  return {cache};
}

// Returns the cost in place, where only the new rows move.
Cost cost(TypeList inputs, TypeList, const Attributes&) {
  return {.bytes = 2.0 * static_cast<double>(inputs[kX]->bytes())};
}

const OpDef kCacheAppend{.name = "cache_append",
                         .infer = infer,
                         .cost = cost,
                         .in_place = {{0, kCache}},
                         .cpu = cache_append_cpu,
                         .cuda = cache_append_cuda};

}  // namespace
}  // namespace cache_append_op

ValueId cache_append(Builder& builder, ValueId cache, ValueId x, ValueId rows) {
  const ValueId next = builder.append_one(cache_append_op::kCacheAppend, {cache, x, rows});
  builder.update(cache, next);
  return next;
}

}  // namespace spillway::ops
