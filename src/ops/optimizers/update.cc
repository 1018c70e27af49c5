#include "ops/optimizers/update.h"

#include <utility>

#include "ops/check.h"

namespace spillway::ops {

using namespace update_input;

std::vector<ValueType> infer_update(std::string_view op, const std::vector<std::string_view>& states, TypeList inputs,
                                    const Attributes& attributes) {
  const ValueType& weight = *inputs[kWeight];
  const ValueType state{DType::kF32, shape_of(slice_of(attributes), weight.shape)};
  expect_real(op, "weight", weight);
  expect_real(op, "gradient", *inputs[kGradient]);
  expect_shape(op, "gradient", *inputs[kGradient], weight.shape);
  expect_scalar(op, "learning_rate", *inputs[kLearningRate], DType::kF32);
  if (inputs[kStep]) expect_scalar(op, "step", *inputs[kStep], DType::kI32);
  if (inputs[kClip]) expect_scalar(op, "clip", *inputs[kClip], DType::kF32);
  std::vector<ValueType> outputs = {weight};
  if (inputs[kMaster]) {
    expect_same(op, "a weight with a master", weight, {DType::kBF16, weight.shape});
    expect_same(op, "master", *inputs[kMaster], state);
    outputs.push_back(state);
  } else {
    expect_same(op, "a weight without a master", weight, {DType::kF32, weight.shape});
  }
  if (inputs.size() != kStates + states.size()) {
    throw input_error(op, "expected {} states, got {}; give those of its OptimizerDef", states.size(),
                      inputs.size() - kStates);
  }
  for (size_t i = 0; i < states.size(); ++i) {
    expect_same(op, states[i], *inputs[kStates + i], state);
    outputs.push_back(state);
  }
  return outputs;
}

std::vector<InPlace> update_in_place(int max_states) {
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
  std::vector<ValueId> inputs = {o.weight, o.gradient, o.learning_rate, o.step, o.clip, o.master};
  inputs.insert(inputs.end(), o.states.begin(), o.states.end());
  const std::vector<ValueId> next = builder.append(op, inputs, std::move(numbers));
  size_t output = 0;
  builder.update(o.weight, next[output++]);
  if (o.master != kNone) builder.update(o.master, next[output++]);
  for (const ValueId state : o.states) builder.update(state, next[output++]);
  return next[0];
}

}  // namespace spillway::ops
