#include "ops/collectives/own_elements/own_elements.h"

#include "base/math.h"
#include "dist/collective.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "tensor/cut.h"

namespace spillway::ops {
namespace own_elements_op {
namespace {

Cut cut_of_rows(const Attributes& attributes, int64_t rows) {
  return cut_of(rows, static_cast<int>(attributes.integer("ranks")), 1);
}

ValueType with_rows(ValueType type, int64_t rows) {
  type.shape.set(0, rows);
  return type;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType& x = *inputs[0];
  expect_real("own_elements", "x", x);
  return {with_rows(x, cut_of_rows(attributes, x.shape[0]).part_elems)};
}

std::vector<ValueType> infer_placed(TypeList inputs, const Attributes& attributes) {
  const ValueType& x = *inputs[0];
  const int64_t rows = attributes.integer("rows");
  expect_same("place_elements", "x", x, with_rows(x, cut_of_rows(attributes, rows).part_elems));
  return {with_rows(x, rows)};
}

void run(const CollectiveArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  const Cut cut = cut_of_rows(args.attributes, x.shape[0]);
  const int rank = args.peers.rank();
  const int64_t size = x.bytes() / x.shape[0], bytes = cut.count(rank) * size;
  args.peers.copy(out.as<std::byte>(), x.as<std::byte>() + cut.begin(rank) * size, bytes);
  args.peers.clear(out.as<std::byte>() + bytes, out.bytes() - bytes);
}

void run_placed(const CollectiveArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  const Cut cut = cut_of_rows(args.attributes, out.shape[0]);
  const int rank = args.peers.rank();
  const int64_t size = out.bytes() / out.shape[0], begin = cut.begin(rank) * size, end = cut.end(rank) * size;
  args.peers.clear(out.as<std::byte>(), begin);
  args.peers.copy(out.as<std::byte>() + begin, x.as<std::byte>(), end - begin);
  args.peers.clear(out.as<std::byte>() + end, out.bytes() - end);
}

const OpDef kPlaceElements{
    .name = "place_elements", .infer = infer_placed, .cost = memory_cost, .collective = run_placed, .held = Held::kOwn};

void vjp(VjpContext& context) {
  Attributes attributes = context.attributes();
  attributes.add("rows", context.input_type(0).shape[0]);
  add_cotangent(context, 0,
                context.builder().append_one(kPlaceElements, {context.cotangent(0)}, std::move(attributes)));
}

const OpDef kOwnElements{
    .name = "own_elements", .infer = infer, .vjp = vjp, .cost = memory_cost, .collective = run, .held = Held::kOwn};

}  // namespace
}  // namespace own_elements_op

ValueId own_elements(Builder& builder, ValueId x, int64_t ranks) {
  return builder.append_one(own_elements_op::kOwnElements, {x}, {{"ranks", ranks}});
}

}  // namespace spillway::ops
