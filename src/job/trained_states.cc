#include "job/trained_states.h"

#include <algorithm>
#include <utility>

#include "job/weight_update.h"
#include "ops/collectives/part.h"
#include "ops/optimizers/bf16_update.h"

namespace spillway::train {

void TrainedStates::declare() {
  if (options_.drawn && options_.accumulates) declare_pool();
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
      if (options_.accumulates && !t.is_split) t.accumulator = accumulator_of(t, p);
      learned_.push_back(result_.trained.size());
      gradients_.push_back({.weight = p.value(),
                            .dtype = gradient_dtype(p),
                            .accumulator = options_.is_split() ? kNone : t.accumulator});
    }
    result_.trained.push_back(std::move(t));
  }
}

void TrainedStates::declare_pool() {
  const ParameterTable& parameters = result_.model.parameters;
  const auto shapes_of = [&](const Parameter& p) {
    TrainedWeight t{.parameter = static_cast<size_t>(&p - &parameters[0]), .weight = p.value()};
    std::vector<Shape> shapes;
    for (const ops::RowSlice& rows : lay_out(t)) shapes.push_back(ops::shape_of(rows, p.shape));
    return t.is_split ? shapes : std::vector<Shape>{p.shape};
  };
  const auto declare = [&](std::string name, const Shape& shape, const std::string& part) {
    const ValueType whole{DType::kF32, shape};
    const ValueType type = options_.is_split() ? ops::part_type(whole, options_.shards()) : whole;
    const ValueId sum = b_.input(std::move(name), type, ValueKind::kGradient, part);
    return options_.is_split() ? note_part(sum, whole) : sum;
  };
  pool_.emplace(parameters, *options_.drawn, options_.is_whole_step, shapes_of, declare);
}

std::vector<ops::RowSlice> TrainedStates::lay_out(TrainedWeight& t) const {
  const ValueType type = result_.graph.value(t.weight).type;
  t.schema = options_.optimizer->states(optimizer_options_of(result_, options_, t), ops::trained_tensor(b_, t.weight));
  const bool is_bf16_alone = type.dtype != DType::kF32 && !options_.masters;
  if (is_bf16_alone) t.schema = ops::bf16_states(std::move(t.schema));
  t.is_split = can_split(t, is_bf16_alone);
  return slices_of(type.shape, t.is_split ? kCutBlock : t.schema.slice_unit, t.is_split);
}

void TrainedStates::add_slices(TrainedWeight& t) {
  const std::vector<ops::RowSlice> slices = lay_out(t);
  const Value weight = result_.graph.value(t.weight);
  const Shape& shape = weight.type.shape;
  const bool has_master = weight.type.dtype != DType::kF32 && options_.masters;
  for (size_t i = 0; i < slices.size(); ++i) {
    const auto add = [&](const ops::StateSpec& spec, ValueKind kind = ValueKind::kOptimizerState) {
      const std::string end = slices.size() > 1 ? fmt::format(".{}", i) : "";
      const ValueType type = ops::type_of(spec, slices[i], shape);
      const std::string name = fmt::format("{}.{}{}", spec.name, weight.name, end);
      return t.is_split ? part(name, t.weight, type, kind, kCutBlock / ops::elems_of(spec.extent))
                        : state(name, t.weight, type, kind);
    };
    StateSlice& slice = t.slices.emplace_back(StateSlice{.rows = slices[i]});
    if (has_master) slice.master = add({.name = "master"});
    for (const ops::StateSpec& spec : t.schema.values) slice.states.push_back(add(spec));
    if (options_.optimizer->evaluated && !has_master)
      slice.kept_aside = add({.name = "trained", .dtype = weight.type.dtype});
    if (options_.ema) slice.ema = add({.name = "ema"});
    if (!t.is_split || t.step == kNone) continue;
    slice.accumulator =
        is_pooled(t) ? pool_->take(ops::shape_of(slices[i], shape)) : add({.name = "gradient"}, ValueKind::kGradient);
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

bool TrainedStates::is_pooled(const TrainedWeight& t) const {
  return pool_ && options_.drawn->layer_of(result_.parameter_of(t).name).has_value();
}

ValueId TrainedStates::accumulator_of(const TrainedWeight& t, const Parameter& p) {
  if (is_pooled(t)) return pool_->take(p.shape);
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
  return note_part(state(std::move(name), weight, ops::part_type(whole, options_.shards(), unit), kind), whole, unit);
}

ValueId TrainedStates::note_part(ValueId id, const ValueType& whole, int64_t unit) {
  b_.split(id);
  result_.parts.emplace(id, cut_of(whole.shape.elems(), options_.shards(), unit));
  return id;
}

}  // namespace spillway::train
