#include "ops/optimizers/update.h"

#include <utility>

#include "base/error.h"
#include "ops/check.h"

namespace spillway::ops {

std::vector<ValueType> infer_update(std::string_view op, const StateSchema& states, TypeList inputs,
                                    const Attributes& attributes) {
  using namespace update_input;
  const ValueType& weight = *inputs[kWeight];
  const RowSlice slice = slice_of(attributes);
  const ValueType master{DType::kF32, shape_of(slice, weight.shape)};
  expect_real(op, "weight", weight);
  expect_real(op, "gradient", *inputs[kGradient]);
  expect_shape(op, "gradient", *inputs[kGradient], weight.shape);
  expect_scalar(op, "learning_rate", *inputs[kLearningRate], DType::kF32);
  if (inputs[kStep]) expect_scalar(op, "step", *inputs[kStep], DType::kI32);
  if (inputs[kClip]) expect_scalar(op, "clip", *inputs[kClip], DType::kF32);
  if (inputs[kStepState]) expect_f32(op, "the state of the step", *inputs[kStepState]);
  std::vector<ValueType> outputs = {weight};
  if (inputs[kMaster]) {
    expect_same(op, "a weight with a master", weight, {DType::kBF16, weight.shape});
    expect_same(op, "master", *inputs[kMaster], master);
    outputs.push_back(master);
  } else {
    expect_same(op, "a weight without a master", weight, {DType::kF32, weight.shape});
  }
  const ElementRange range = elements_of(slice, weight.shape);
  const bool is_whole = range.begin == 0 && range.end == weight.shape.elems();
  SPILLWAY_CHECK(states.slice_unit == 0 ? is_whole : range.begin % states.slice_unit == 0,
                 "{} of a slice from element {} on, in units of {}", op, range.begin, states.slice_unit);
  if (inputs.size() != kStates + states.values.size()) {
    throw input_error(op, "expected {} states, got {}; give those of its OptimizerDef", states.values.size(),
                      inputs.size() - kStates);
  }
  for (size_t i = 0; i < states.values.size(); ++i) {
    const ValueType type = type_of(states.values[i], slice, weight.shape);
    expect_same(op, states.values[i].name, *inputs[kStates + i], type);
    outputs.push_back(type);
  }
  return outputs;
}

std::vector<InPlace> update_in_place(int max_states) {
  using namespace update_input;
  std::vector<InPlace> pairs = {{0, kWeight}, {1, kMaster}};
  for (int i = 0; i < max_states; ++i) {
    const auto input = static_cast<int8_t>(kStates + i);
    pairs.push_back({static_cast<int8_t>(1 + i), input});  // without a master
    pairs.push_back({static_cast<int8_t>(2 + i), input});
  }
  return pairs;
}

ValueId append_update(Builder& builder, const OpDef& op, const UpdateOperands& o, Attributes numbers) {
  const RowSlice rows = o.rows.value_or(RowSlice{0, builder.type(o.weight).shape[0]});
  numbers.add("first_row", rows.first);
  numbers.add("rows", rows.count);
  std::vector<ValueId> inputs = {o.weight, o.gradient, o.learning_rate, o.step, o.clip, o.master, o.step_state};
  inputs.insert(inputs.end(), o.states.begin(), o.states.end());
  const std::vector<ValueId> next = builder.append(op, inputs, std::move(numbers));
  size_t output = 0;
  builder.update(o.weight, next[output++]);
  if (o.master != kNone) builder.update(o.master, next[output++]);
  for (const ValueId state : o.states) builder.update(state, next[output++]);
  return next[0];
}

}  // namespace spillway::ops
