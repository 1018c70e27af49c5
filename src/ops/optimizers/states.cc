#include "ops/optimizers/states.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/math.h"

namespace spillway::ops {

void StateSchema::add(std::string_view name, StateStorage storage) {
  const std::string text(name);
  switch (storage) {
    case StateStorage::kF32:
      values.push_back({.name = text});
      return;
    case StateStorage::kBf16:
      values.push_back({.name = text, .dtype = DType::kBF16});
      return;
    case StateStorage::kCodes8:
    case StateStorage::kCodes4:
      break;
  }
  const StateExtent codes = storage == StateStorage::kCodes8 ? StateExtent::kElement : StateExtent::kPair;
  values.push_back({.name = text, .dtype = DType::kU8, .extent = codes});
  values.push_back({.name = text + "_absmax", .extent = StateExtent::kBlock});
  SPILLWAY_CHECK(slice_unit == 0 || kStateBlock % slice_unit == 0, "slices of {} elements", slice_unit);
  if (slice_unit != 0) slice_unit = kStateBlock;
}

void StateSchema::add_factored(std::string_view name) {
  values.push_back({.name = std::string(name) + "_row", .extent = StateExtent::kRow});
  values.push_back({.name = std::string(name) + "_col", .extent = StateExtent::kColumn});
}

TrainedTensor trained_tensor(Builder& builder, ValueId weight) {
  const Value& value = builder.graph().value(weight);
  return {value.type.shape, value.block != kNone};
}

ValueType type_of(const StateSpec& spec, const RowSlice& slice, const Shape& weight) {
  const Shape shape = shape_of(slice, weight);
  switch (spec.extent) {
    case StateExtent::kElement:
      return {spec.dtype, shape};
    case StateExtent::kPair:
      return {spec.dtype, {div_ceil(shape.elems(), 2)}};
    case StateExtent::kBlock:
      return {spec.dtype, {div_ceil(shape.elems(), kStateBlock)}};
    case StateExtent::kRow:
      return {spec.dtype, {shape[0]}};
    case StateExtent::kColumn:
      break;
  }
  return {spec.dtype, {weight[0] == 0 ? 0 : weight.elems() / weight[0]}};
}

}  // namespace spillway::ops
