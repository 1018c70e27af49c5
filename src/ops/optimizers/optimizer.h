// What an optimizer is: a name, the state that it keeps for a weight, and its update. Training graphs, checkpoints and
// plans walk over this; each optimizer is a folder here (docs/add-an-optimizer.md).
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "ops/optimizers/states.h"
#include "ops/row_slice.h"

namespace spillway::ops {

// The numbers of a config; each optimizer takes those that it knows. Defaults are transformers'.
struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0;
  double weight_decay = 0;
  int64_t min_8bit_size =
      4096;  // elements from which on a weight has moments in codes, as bitsandbytes and torchao say
};

// The persistent values of some rows of a weight, and the numbers of the step.
struct UpdateOperands {
  ValueId weight = kNone;          // the whole: f32, or a bf16 working copy of `master`
  ValueId master = kNone;          // f32, the rows; absent where the weight is f32 itself
  std::vector<ValueId> states;     // of the rows; as OptimizerDef::states says
  ValueId gradient = kNone;        // f32 or bf16, of the whole weight
  ValueId clip = kNone;            // f32 [1], multiplies the gradient; absent: 1
  ValueId learning_rate = kNone;   // f32 [1]
  ValueId step = kNone;            // i32 [1], 1 in the first step; only where the optimizer asks for it
  std::optional<RowSlice> rows{};  // absent: all of the weight
};

struct OptimizerDef {
  std::string_view name;  // what a config's words resolve to: "adamw"

  // The states of a trained weight.
  StateSchema (*states)(const OptimizerOptions& options, const TrainedTensor& weight) = nullptr;

  // Appends the update of the rows, whose outputs take the places of weight, master and states. Returns the next
  // version of the weight, which the update of other rows takes.
  ValueId (*update)(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) = nullptr;
};

[[nodiscard]] std::span<const OptimizerDef* const> all_optimizers();
// Null for a name that is none of theirs.
[[nodiscard]] const OptimizerDef* find_optimizer(std::string_view name);

}  // namespace spillway::ops
