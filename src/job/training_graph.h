// Builds a whole optimizer step as one Graph: passes that score rows, if the objective has any, forward, loss,
// backward, clipping, update. All before clipping is there once for each micro-batch of a group.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "job/layer_draws.h"
#include "job/split_weights.h"
#include "model/model.h"
#include "objectives/passes.h"
#include "ops/ema/ema.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/optimizers/optimizer.h"
#include "ops/row_slice.h"
#include "tensor/cut.h"

namespace spillway::train {

// The largest number of elements in one value of the optimizer's state (16 MiB in f32), so that streaming it from
// slower memory takes only small buffers.
constexpr int64_t kStateSliceElems = int64_t{4} << 20;

// A model that a program beside training runs. All its weights are copies (ModelOptions::copies), and every program of
// the job keeps them where the plan of training puts them.
struct ModelBeside {
  std::string folder;  // of its weights
  ModelPtr model;
  ModelOptions options;  // of its program
};

struct TrainingGraphOptions {
  ModelOptions model;
  ObjectivePtr objective = text_objective();
  ReferenceOptions reference;       // of an objective that has a reference
  std::optional<ValueModel> value;  // of an objective that has a value model
  const ops::OptimizerDef* optimizer = &ops::kAdamw;
  // weight_decay is that of the parameters that decay: unless `decays_all`, those that transformers decays.
  ops::OptimizerOptions optimizer_options = ops::options_of(ops::kAdamw);
  // By name of a weight of the model: its learning rate as a multiple of that of the others.
  std::map<std::string, double, std::less<>> rate_ratios;
  bool decays_all = false;                       // norms and biases, too
  std::set<std::string, std::less<>> undecayed;  // weights of the model that do not decay, beside those
  bool masters = true;                   // bf16 weights have f32 masters; else they and their moments are bf16 alone
  std::optional<int64_t> rounding_seed;  // without masters: weights are rounded stochastically
  double max_grad_norm = 1;              // 0: no clipping
  std::optional<ops::EmaOptions> ema;    // of the trained weights
  bool accumulates = false;              // several micro-batches per update: gradients are persistent f32 sums
  int64_t micro_batches = 1;    // that the graph computes block by block (micro_batch_group); several accumulate
  bool is_whole_step = false;   // these are all of a step, so that no sum is left from one run to the next
  int ranks = 1;                // of which each adds the gradients of its micro-batches; several accumulate
  int copies = 1;               // groups of neighbouring ranks, of which each has all of what is split
  int together = 1;             // neighbouring ranks whose gradients are added to each other before they go to others
  bool splits_states = false;   // each of several ranks has and updates a part of the optimizer's state
  bool splits_weights = false;  // beside that, each has a part of the weights, frozen ones too
  int64_t state_slice_elems = kStateSliceElems;
  // For partially trained weights, by name: the ascending rows whose gradient counts; it is zero for all other rows.
  // Decay and moments act on every row, as in axolotl's unfrozen_parameters.
  std::map<std::string, std::vector<ops::RowSlice>, std::less<>> trained_rows;
  std::vector<ModelBeside> beside;
  // A job that trains some layers of the model at a time names those of this graph. The others' weights and states are
  // there, and nothing changes them.
  std::optional<DrawnLayers> drawn;

  // Returns true if gradients are added up over ranks.
  [[nodiscard]] bool is_split() const { return ranks > 1; }
  // Returns the number of ranks that have different parts of what is split.
  [[nodiscard]] int shards() const { return ranks / copies; }
  // Returns true if a weight is updated as soon as its gradient is ready, within the micro-batch.
  [[nodiscard]] bool updates_early() const { return (!accumulates || is_whole_step) && max_grad_norm == 0; }
};

// The optimizer's persistent values for some rows of a weight. A value is named "<state>.<weight>", followed by ".0",
// ".1", ... if the weight has several slices. Where the weight's update is split, each rank has a part of each
// (TrainingGraph::parts).
struct StateSlice {
  ops::RowSlice rows;
  ValueId master = kNone;       // f32, "master.<weight>", where the weight is a bf16 working copy
  std::vector<ValueId> states;  // as TrainedWeight::schema says
  ValueId kept_aside = kNone;   // "trained.<weight>": the rows while others are evaluated, where no master has them
  ValueId ema = kNone;          // f32, "ema.<weight>", where weights are averaged
  ValueId accumulator = kNone;  // as TrainedWeight::accumulator, of these rows, where the weight's update is split
};

// The persistent values that belong to one trained weight.
struct TrainedWeight {
  size_t parameter = 0;   // into ModelGraph::parameters
  bool is_value = false;  // of those of the value model
  ValueId weight = kNone;
  ops::StateSchema schema;         // the optimizer's
  std::vector<StateSlice> slices;  // in the order of their rows, at least one
  // "gradient.<weight>", f32: the sum over micro-batches, of which each of several ranks has its part; kNone without
  // accumulation, in a graph of a whole step, and where slices have their own. Layers that are drawn have some of
  // TrainingGraph::shared_sums.
  ValueId accumulator = kNone;
  ValueId step = kNone;  // the batch value that counts its updates, from 1; kNone where the graph does not train it

  bool is_split = false;  // each rank updates a part of the weight, in its own part of the states
};

// The learning rate of some weights: a batch value, f32 [1].
struct OtherRate {
  double ratio = 1;  // times the learning rate of the others
  ValueId value = kNone;
};

struct TrainingGraph {
  Graph graph;
  ModelGraph model;
  std::optional<ModelGraph> value;     // the value model, where the objective has one
  std::vector<TrainedWeight> trained;  // those of the model first
  AppendedObjective objective;
  std::vector<MicroBatchValues> group;  // of each micro-batch; the first has the objective's own
  std::vector<ParameterTable> beside;   // the weights of TrainingGraphOptions::beside
  // The cuts of the persistent values of which each rank has a part, as a value of one rank is cut.
  std::map<ValueId, Cut> parts;
  WeightNames split_weights;    // the weights among them
  std::optional<Graph> wholes;  // where weights are split: all persistent values as they would be on one rank

  // Returns the graph that a program of the job adopts, to build passes of whole weights; split_weights() cuts them
  // then.
  [[nodiscard]] const Graph& adopted() const { return wholes ? *wholes : graph; }
  const ops::OptimizerDef* optimizer = nullptr;
  ops::OptimizerOptions optimizer_options;
  ValueId step_state = kNone;  // "optimizer.<name>": what the optimizer keeps for all weights together
  // Batch values beside the model's and the objective's.
  ValueId learning_rate = kNone;       // f32 [1]
  std::vector<OtherRate> other_rates;  // each ratio once
  ValueId step = kNone;                // i32 [1]: 1 in the first step
  // The counts of steps of drawn layers, by place in DrawnLayers::numbers: i32 [1], 1 in a layer's first step.
  std::vector<ValueId> layer_steps;
  std::vector<ValueId> shared_sums;  // over micro-batches, of weights of drawn layers (job/gradient_pool.h)
  SectionId forward = 0, backward = 0, update = 0;
  bool updates_early = false;  // weights are updated in the backward section
  size_t norm_result =
      0;  // into Graph::results: f32 [1], after the update section, the gradients' norm before clipping

  [[nodiscard]] const Parameter& parameter_of(const TrainedWeight& t) const {
    return (t.is_value ? *value : model).parameters[t.parameter];
  }
  // The trained weights of the model without the value model's: those that a run writes.
  [[nodiscard]] std::span<const TrainedWeight> trained_of_model() const;
};

// On several ranks, each gradient of a micro-batch is added to the rank's part of a sum as soon as it is whole, and the
// update section gathers the sums where it reads them. With splits_states, a rank instead updates its part of a weight
// from its part of the sum, and the new parts are gathered. A weight whose update cannot be cut at multiples of
// kCutBlock elements, or that is no larger than a part, keeps whole states on all ranks, and so do optimizers with
// numbers of the step and weights that are rounded stochastically. With splits_weights, passes over a micro-batch
// gather weights (job/split_weights.h), and the parts are updated where they are. REQUIRES: options.accumulates, if
// there are several ranks or several micro-batches, and not several of both; several ranks in each of the copies.
//
// Without accumulation, and in a graph of a whole step, the norm of a gradient is computed in the backward section as
// soon as the gradient is ready. Without clipping, the optimizer's operations are placed there, too, and only the total
// norm is left for the update section.
//
// With drawn layers, gradients, sums and updates are those of these layers and of what is outside the layers; an update
// counts the steps in which its layer was trained. REQUIRES: no value model, and an optimizer without numbers for all
// weights together.
[[nodiscard]] TrainingGraph build_training_graph(const Model& model, const TrainingGraphOptions& options);
// The same of a graph that adopts the persistent values of another draw's, `homes`, with whole weights, and has no
// others.
[[nodiscard]] TrainingGraph build_training_graph(const Model& model, const TrainingGraphOptions& options,
                                                 const Graph& homes);

}  // namespace spillway::train
