#include "job/trained_states.h"

#include <algorithm>
#include <utility>

#include "job/weight_update.h"
#include "ops/collectives/part.h"
#include "ops/optimizers/bf16_update.h"

namespace spillway::train {

void TrainedStates::declare() {
  if (options_.drawn && options_.accumulates)
    pool_.emplace(b_, result_.model.parameters, *options_.drawn, options_.is_whole_step);
  declare(result_.model.parameters, false);
  if (pool_ && !options_.is_whole_step) result_.shared_sums = pool_->values();
  if (result_.value) declare(result_.value->parameters, true);
}

void TrainedStates::declare(const ParameterTable& parameters, bool is_value) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (!p.trained) continue;
    TrainedWeight t{.parameter = i, .is_value = is_value, .weight = p.value(), .step = step_of(p.name)};
    add_slices(t);
    if (t.step != kNone) {
      if (options_.accumulates && !t.is_split()) t.accumulator = accumulator_of(t, p);
      learned_.push_back(result_.trained.size());
      gradients_.push_back({.weight = p.value(),
                            .dtype = gradient_dtype(p),
                            .accumulator = options_.is_split() ? kNone : t.accumulator});
    }
    result_.trained.push_back(std::move(t));
  }
}

void TrainedStates::add_slices(TrainedWeight& t) {
  const Value weight = result_.graph.value(t.weight);
  const Shape& shape = weight.type.shape;
  t.schema = options_.optimizer->states(optimizer_options_of(result_, options_, t), ops::trained_tensor(b_, t.weight));
  const bool is_bf16 = weight.type.dtype != DType::kF32, has_master = is_bf16 && options_.masters;
  if (is_bf16 && !has_master) t.schema = ops::bf16_states(std::move(t.schema));
  const bool is_split = can_split(t, is_bf16 && !has_master);
  const std::vector<ops::RowSlice> slices = slices_of(shape, is_split ? kCutBlock : t.schema.slice_unit, is_split);
  for (size_t i = 0; i < slices.size(); ++i) {
    const auto add = [&](const ops::StateSpec& spec, ValueKind kind = ValueKind::kOptimizerState) {
      const std::string end = slices.size() > 1 ? fmt::format(".{}", i) : "";
      const ValueType type = ops::type_of(spec, slices[i], shape);
      const std::string name = fmt::format("{}.{}{}", spec.name, weight.name, end);
      return is_split ? part(name, t.weight, type, kind, kCutBlock / ops::elems_of(spec.extent))
                      : state(name, t.weight, type, kind);
    };
    StateSlice& slice = t.slices.emplace_back(StateSlice{.rows = slices[i]});
    if (has_master) slice.master = add({.name = "master"});
    for (const ops::StateSpec& spec : t.schema.values) slice.states.push_back(add(spec));
    if (options_.optimizer->evaluated && !has_master)
      slice.kept_aside = add({.name = "trained", .dtype = weight.type.dtype});
    if (options_.ema) slice.ema = add({.name = "ema"});
    if (is_split) slice.accumulator = add({.name = "gradient"}, ValueKind::kGradient);
  }
}

std::vector<ops::RowSlice> TrainedStates::slices_of(const Shape& shape, int64_t unit, bool is_split) const {
  if (is_split && options_.splits_weights) return {{0, shape[0]}};
  return ops::slice_rows(shape, options_.state_slice_elems, unit);
}

bool TrainedStates::can_split(const TrainedWeight& t, bool is_bf16_alone) const {
  if (!options_.is_split() || !options_.splits_states || options_.optimizer->step_state != nullptr) return false;
  if (is_bf16_alone && options_.rounding_seed) return false;
  const ops::StateSchema& schema = t.schema;
  if (schema.slice_unit == 0 || kCutBlock % schema.slice_unit != 0) return false;
  const auto is_of_rows = [](const ops::StateSpec& spec) { return ops::elems_of(spec.extent) == 0; };
  if (std::any_of(schema.values.begin(), schema.values.end(), is_of_rows)) return false;
  ops::TrainedTensor tensor = ops::trained_tensor(b_, t.weight);
  if (cut_of(tensor.shape.elems(), options_.shards()).part_elems >= tensor.shape.elems()) return false;
  for (const ops::RowSlice& rows : slices_of(tensor.shape, kCutBlock, true)) {
    const Cut cut = cut_of(ops::shape_of(rows, result_.graph.value(t.weight).type.shape).elems(), options_.shards());
    tensor.shape = {cut.part_elems};
    ops::StateSchema of_part = options_.optimizer->states(optimizer_options_of(result_, options_, t), tensor);
    if (is_bf16_alone) of_part = ops::bf16_states(std::move(of_part));
    if (of_part.values != schema.values || of_part.slice_unit != schema.slice_unit) return false;
  }
  return true;
}

ValueId TrainedStates::step_of(std::string_view weight) const {
  if (!options_.drawn || !options_.drawn->layer_of(weight)) return result_.step;
  const std::optional<size_t> place = options_.drawn->place_of(weight);
  return place ? result_.layer_steps[*place] : kNone;
}

// A sum over micro-batches needs f32, and so does what the fused loss sums over chunks. Otherwise the gradient of a
// large bf16 matrix is rounded once, to bf16, as every framework keeps it; small ones stay f32.
DType TrainedStates::gradient_dtype(const Parameter& p) const {
  const bool summed = options_.accumulates || p.role == ParameterRole::kHead || p.role == ParameterRole::kEmbedding;
  return options_.model.lora || summed || p.shape.rank() < 2 ? DType::kF32 : p.dtype;
}

ValueId TrainedStates::accumulator_of(const TrainedWeight& t, const Parameter& p) {
  if (pool_ && options_.drawn->layer_of(p.name)) return pool_->take(p.shape);
  const std::string name = "gradient." + result_.graph.value(t.weight).name;
  const ValueType sum = {DType::kF32, p.shape};
  return options_.is_split() ? part(name, t.weight, sum, ValueKind::kGradient)
                             : state(name, t.weight, sum, ValueKind::kGradient);
}

ValueId TrainedStates::state(std::string name, ValueId weight, const ValueType& type, ValueKind kind) {
  b_.set_block(result_.graph.value(weight).block);
  const ValueId id = b_.input(std::move(name), type, kind);
  b_.end_block();
  return id;
}

ValueId TrainedStates::part(std::string name, ValueId weight, const ValueType& whole, ValueKind kind, int64_t unit) {
  const ValueId id = state(std::move(name), weight, ops::part_type(whole, options_.shards(), unit), kind);
  b_.split(id);
  result_.parts.emplace(id, cut_of(whole.shape.elems(), options_.shards(), unit));
  return id;
}

}  // namespace spillway::train
