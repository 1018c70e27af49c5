// The frame of every optimizer's update: operands and their types, and their views for a kernel. An optimizer adds its
// formula (ops/optimizers/formula-inl.h), which the frames of both backends run (update-inl.h, update.cuh).
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "backend/kernel.h"
#include "ops/optimizers/either_side.h"
#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// The inputs of the operation: weight, gradient, learning_rate, step or none, clip or none, master or none, step_state
// or none, states. Outputs: weight, master if there is one, states.
namespace update_input {
constexpr size_t kWeight = 0, kGradient = 1, kLearningRate = 2, kStep = 3, kClip = 4, kMaster = 5, kStepState = 6,
                 kStates = 7;
}

// Does OpDef::infer for an update with those states, by their names in messages.
[[nodiscard]] std::vector<ValueType> infer_update(std::string_view op, const StateSchema& states, TypeList inputs,
                                                  const Attributes& attributes);
// Returns OpDef::in_place of an update with at most so many states: every output may take its input's place.
[[nodiscard]] std::vector<InPlace> update_in_place(int max_states);

// Appends the operation; `numbers` are its attributes beside the rows. Returns the weight's next version.
ValueId append_update(Builder& builder, const OpDef& op, const UpdateOperands& operands, Attributes numbers);

// The numbers of a step that a formula is made from.
struct StepInputs {
  float learning_rate = 0;
  int32_t number = 0;            // 1 in the first step; 0 if the operation has none
  const float* state = nullptr;  // of OptimizerDef::step_state
};
// Holds them as a kernel gets them: where only its device can read them.
struct StepViews {
  explicit StepViews(const KernelArgs& args)
      : learning_rate(args.inputs[update_input::kLearningRate].as<float>()),
        number(args.inputs[update_input::kStep].as<int32_t>()),
        state(args.inputs[update_input::kStepState].as<float>()) {}
  [[nodiscard]] SPILLWAY_EITHER_SIDE StepInputs read() const {
    return {*learning_rate, number != nullptr ? *number : 0, state};
  }

  const float* learning_rate;
  const int32_t* number;
  const float* state;
};

// Returns OpDef::cuda_workspace_bytes of an update whose formula a GPU makes once.
template <typename Formula>
int64_t formula_bytes(TypeList, TypeList, const Attributes&) {
  static_assert(Formula::kMadeOnce);
  return sizeof(Formula);
}

// The elements that a kernel reads and writes, from the first element of the slice on.
template <int kStates>
struct UpdateViews {
  explicit UpdateViews(const KernelArgs& args) {
    const TensorView &weight_in = args.inputs[update_input::kWeight], &weight = args.outputs[0];
    const TensorView& master = args.inputs[update_input::kMaster];
    slice = elements_of(slice_of(args.attributes), weight.shape);
    const bool has_master = master.data != nullptr;
    p_in = has_master ? master.as<float>() : weight_in.as<float>() + slice.begin;
    p = has_master ? args.outputs[1].as<float>() : weight.as<float>() + slice.begin;
    copy = has_master ? weight.as<bf16>() + slice.begin : nullptr;
    for (size_t i = 0; i != kStates; ++i) {
      state_in[i] = args.inputs[update_input::kStates + i].as<float>();
      state[i] = args.outputs[(has_master ? 2 : 1) + i].as<float>();
    }
  }

  static constexpr size_t kSize = kStates > 0 ? kStates : 1;  // a formula may keep a state for itself

  ElementRange slice;
  const float* p_in = nullptr;
  float* p = nullptr;
  bf16* copy = nullptr;  // gets p rounded; null if p is the weight
  std::array<const float*, kSize> state_in{};
  std::array<float*, kSize> state{};
};

}  // namespace spillway::ops
