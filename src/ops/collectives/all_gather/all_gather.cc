#include "ops/collectives/all_gather/all_gather.h"

#include <array>
#include <vector>

#include "base/index.h"
#include "base/sizes.h"
#include "dist/collective.h"
#include "ops/check.h"
#include "ops/collectives/part.h"
#include "ops/memory.h"

namespace spillway::ops {
namespace all_gather_op {
namespace {

constexpr std::string_view kName = "all_gather";
// The extents of the whole, outermost first, as many as it has.
constexpr std::array<std::string_view, Shape::kMaxRank> kExtents = {"extent_0", "extent_1", "extent_2", "extent_3",
                                                                    "extent_4"};

Shape shape_of(const Attributes& attributes) {
  std::vector<int64_t> extents;
  for (int64_t axis = 0; axis < attributes.integer("axes"); ++axis)
    extents.push_back(attributes.integer(nth(kExtents, axis)));
  return Shape(extents);
}

Cut cut_of_whole(const Attributes& attributes, const Shape& whole) {
  return cut_of(whole.elems(), static_cast<int>(attributes.integer("ranks")), attributes.integer("unit"));
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType whole{inputs[0]->dtype, shape_of(attributes)};
  expect_same(kName, "part", *inputs[0], {whole.dtype, {cut_of_whole(attributes, whole.shape).part_elems}});
  return {whole};
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = memory_cost(inputs, outputs, attributes);
  result.sent_bytes = exchanged_bytes(cut_of_whole(attributes, outputs[0]->shape), outputs[0]->dtype);
  return result;
}

void run(const CollectiveArgs& args) {
  const TensorView &part = args.inputs[0], &whole = args.outputs[0];
  args.peers.gather(span_of(part.as<const std::byte>(), part.bytes()), span_of(whole.as<std::byte>(), whole.bytes()),
                    cut_of_whole(args.attributes, whole.shape), size_of(whole.dtype));
}

const OpDef kAllGather{.name = kName, .infer = infer, .cost = cost, .collective = run, .held = Held::kWhole};

Operation operation(ValueId part, const Shape& shape, int ranks, int64_t unit) {
  Attributes attributes{{"ranks", int64_t{ranks}}, {"unit", unit}, {"axes", int64_t{shape.rank()}}};
  for (int axis = 0; axis < shape.rank(); ++axis) attributes.add(nth(kExtents, axis), shape[axis]);
  return {.def = &kAllGather, .inputs = {part}, .attributes = std::move(attributes)};
}

}  // namespace
}  // namespace all_gather_op

ValueId all_gather(Builder& builder, ValueId part, const Shape& shape, int ranks, int64_t unit) {
  Operation op = all_gather_op::operation(part, shape, ranks, unit);
  return builder.append_one(*op.def, std::move(op.inputs), std::move(op.attributes));
}

Operation all_gather_operation(ValueId part, const Shape& shape, int ranks) {
  return all_gather_op::operation(part, shape, ranks, kCutBlock);
}

}  // namespace spillway::ops
