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

Cut cut_of_elements(const Attributes& attributes, int64_t elems) {
  return cut_of(elems, static_cast<int>(attributes.integer("ranks")), 1);
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType& x = *inputs[0];
  expect_real("own_elements", "x", x);
  expect_rank("own_elements", "x", x, 1);
  return {{x.dtype, {cut_of_elements(attributes, x.shape[0]).part_elems}}};
}

std::vector<ValueType> infer_placed(TypeList inputs, const Attributes& attributes) {
  const int64_t elems = attributes.integer("elems");
  expect_shape("place_elements", "x", *inputs[0], {cut_of_elements(attributes, elems).part_elems});
  return {{inputs[0]->dtype, {elems}}};
}

void run(const CollectiveArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  const Cut cut = cut_of_elements(args.attributes, x.elems());
  const int rank = args.peers.rank();
  const int64_t size = size_of(x.dtype), bytes = cut.count(rank) * size;
  args.peers.copy(out.as<std::byte>(), x.as<std::byte>() + cut.begin(rank) * size, bytes);
  args.peers.clear(out.as<std::byte>() + bytes, out.bytes() - bytes);
}

void run_placed(const CollectiveArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  const Cut cut = cut_of_elements(args.attributes, out.elems());
  const int rank = args.peers.rank();
  const int64_t size = size_of(x.dtype), begin = cut.begin(rank) * size, end = cut.end(rank) * size;
  args.peers.clear(out.as<std::byte>(), begin);
  args.peers.copy(out.as<std::byte>() + begin, x.as<std::byte>(), end - begin);
  args.peers.clear(out.as<std::byte>() + end, out.bytes() - end);
}

const OpDef kPlaceElements{
    .name = "place_elements", .infer = infer_placed, .cost = memory_cost, .collective = run_placed, .held = Held::kOwn};

void vjp(VjpContext& context) {
  Attributes attributes = context.attributes();
  attributes.add("elems", context.input_type(0).shape[0]);
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
