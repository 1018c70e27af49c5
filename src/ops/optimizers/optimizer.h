// The description of an optimizer: a name, the state that it keeps for a weight, and its update. Training graphs,
// checkpoints and plans walk over this; each optimizer is a folder here (docs/add-an-optimizer.md).
#pragma once

#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "ops/optimizers/states.h"
#include "ops/row_slice.h"

namespace spillway::ops {

// A numeric option of an optimizer.
struct OptimizerOption {
  std::string_view name;   // a literal, the name in its library and optim_args: "momentum"
  double value = 0;        // the default; a truth value is 0 or 1
  std::string_view key{};  // a config key of its own, which transformers or axolotl pass to this optimizer
  double least = 0, most = std::numeric_limits<double>::infinity();
};
inline constexpr OptimizerOption kWeightDecay{"weight_decay", 0, "weight_decay"};
// Returns an option that is the weight of the past in a running mean.
[[nodiscard]] constexpr OptimizerOption mean_option(std::string_view name, double value, std::string_view key = {}) {
  return {name, value, key, 0, 1 - 1e-8};
}
// For optimizers whose moments are codes: the number of elements from which on a weight has such moments, and else f32
// ones. bitsandbytes' name and number, and torchao's number.
inline constexpr OptimizerOption kMin8bitSize{"min_8bit_size", 4096};
[[nodiscard]] constexpr OptimizerOption flag_option(std::string_view name) { return {name, 0, {}, 0, 1}; }

// The values of an optimizer's options by name; they are the constants of its update's operation, too.
using OptimizerOptions = Attributes;

// The persistent values of some rows of a weight, and the numbers of the step.
struct UpdateOperands {
  ValueId weight = kNone;          // the whole: f32, or a bf16 working copy of `master`
  ValueId master = kNone;          // f32, the rows; absent if the weight is f32 itself
  std::vector<ValueId> states;     // of the rows; as OptimizerDef::states says
  ValueId step_state = kNone;      // of this step, as in StepState; only if the optimizer has one
  ValueId gradient = kNone;        // f32 or bf16, of the whole weight
  ValueId clip = kNone;            // f32 [1], multiplies the gradient; absent: 1
  ValueId learning_rate = kNone;   // f32 [1]
  ValueId step = kNone;            // i32 [1], 1 in the first step; only if the optimizer needs it
  std::optional<RowSlice> rows{};  // absent: all of the weight
};

// Numbers that an optimizer keeps for all weights together: f32 [elems], zeros before the first step.
struct StepState {
  int64_t elems = 0;
  // Appends the computation of their next version, which the updates of that step read. `learning_rate` and `step` are
  // as in UpdateOperands. Returns the next version of `state`.
  ValueId (*next)(Builder& builder, ValueId state, ValueId learning_rate, ValueId step,
                  const OptimizerOptions& options) = nullptr;
};

// The weights that are evaluated, sampled and saved, if they differ from the trained ones.
struct EvaluatedWeights {
  size_t state = 0;  // the one of OptimizerDef::states that it is computed from: a number for each element
  // Turns trained numbers of a weight into those; `state` has as many, of the same elements.
  void (*from_trained)(std::span<float> weight, std::span<const float> state,
                       const OptimizerOptions& options) = nullptr;
};

struct OptimizerDef {
  std::string_view name;  // the name that a config's words resolve to: "adamw"
  // Includes kWeightDecay, which is set to 0 for the weights that transformers does not decay.
  std::span<const OptimizerOption> options;
  // Returns the required property of options that exclude each other, for a message: "momentum above 0 beside
  // nesterov". Empty if they fit. Null: they always do.
  std::string_view (*conflict)(const OptimizerOptions& options) = nullptr;

  // Whether embedding and head do not decay, as in axolotl for optimizers of its own.
  bool spares_embeddings = false;
  // Whether moments of embeddings are f32, as transformers' Trainer has bitsandbytes keep them.
  bool keeps_embeddings_in_f32 = false;

  // Returns the states of a trained weight.
  StateSchema (*states)(const OptimizerOptions& options, const TrainedTensor& weight) = nullptr;

  const StepState* step_state = nullptr;        // null: none
  const EvaluatedWeights* evaluated = nullptr;  // null: the trained ones

  // Appends the update of the rows, whose outputs take the places of weight, master and states. Returns the next
  // version of the weight, which the update of other rows takes.
  ValueId (*update)(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) = nullptr;
};

// Returns the optimizer's default options, with those of `given` that it takes.
[[nodiscard]] OptimizerOptions options_of(const OptimizerDef& optimizer,
                                          std::initializer_list<OptimizerOption> given = {});

// Returns true if the weight has coded states, by kMin8bitSize.
[[nodiscard]] bool has_coded_states(const OptimizerOptions& options, const Shape& weight);

[[nodiscard]] std::span<const OptimizerDef* const> all_optimizers();
// Returns null if no optimizer has that name.
[[nodiscard]] const OptimizerDef* find_optimizer(std::string_view name);

}  // namespace spillway::ops
