#include "ops/collectives/own_part/own_part.h"

#include "dist/collective.h"
#include "ops/collectives/part.h"

namespace spillway::ops {
namespace own_part_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  return {{inputs[0]->dtype, {cut_rows(attributes, inputs[0]->shape).cut.part_elems}}};
}

Cost cost(TypeList, TypeList outputs, const Attributes&) {
  return {.bytes = 2 * static_cast<double>(outputs[0]->bytes())};
}

void run(const CollectiveArgs& args) {
  const TensorView &whole = args.inputs[0], &part = args.outputs[0];
  const auto [rows, cut] = cut_rows(args.attributes, whole.shape);
  const int rank = args.peers.rank();
  const int64_t size = size_of(whole.dtype), bytes = cut.count(rank) * size;
  args.peers.copy(part.as<std::byte>(), whole.as<std::byte>() + (rows.begin + cut.begin(rank)) * size, bytes);
  args.peers.clear(part.as<std::byte>() + bytes, part.bytes() - bytes);
}

const OpDef kOwnPart{.name = "own_part", .infer = infer, .cost = cost, .collective = run, .held = Held::kPart};

}  // namespace
}  // namespace own_part_op

ValueId own_part(Builder& builder, ValueId whole, const RowSlice& rows, int ranks) {
  return builder.append_one(own_part_op::kOwnPart, {whole}, attributes_of(rows, ranks));
}

}  // namespace spillway::ops
