#include "job/training_graph.h"

#include <algorithm>
#include <utility>

#include "graph/autodiff.h"
#include "graph/place_early.h"
#include "graph/repeat_by_block.h"
#include "model/adapter.h"
#include "objectives/frozen_copies.h"
#include "ops/add/add.h"
#include "ops/clip_factor/clip_factor.h"
#include "ops/collectives/all_gather/all_gather.h"
#include "ops/collectives/part.h"
#include "ops/collectives/reduce_scatter/reduce_scatter.h"
#include "ops/optimizers/bf16_update.h"
#include "ops/squared_norm/squared_norm.h"
#include "ops/zero/zero.h"

namespace spillway::train {
namespace {

class TrainingGraphBuilder {
 public:
  TrainingGraphBuilder(const Model& model, const TrainingGraphOptions& options) : model_(model), options_(options) {}

  TrainingGraph run() {
    SPILLWAY_CHECK(options_.accumulates || !is_split(), "{} ranks without sums", options_.ranks);
    SPILLWAY_CHECK(options_.micro_batches == 1 || (options_.accumulates && !is_split()), "{} micro-batches at a time",
                   options_.micro_batches);
    result_.graph.name = "training";
    objective_.append_passes(b_, forward_section());
    result_.forward = last_section();
    result_.model = model_.build(b_, options_.model);
    const size_t blocks = graph().blocks.size();
    result_.value = objective_.append_value_model(b_);
    for (const ModelBeside& other : options_.beside)
      result_.beside.push_back(declare_copies(b_, *other.model, other.options, blocks));
    add_batch_values();
    add_step_state();
    add_states();
    const ValueId loss = add_loss();
    append_backward(b_, loss, gradients_, ops::add);
    if (is_split()) add_to_parts();
    add_group();
    result_.backward = last_section();
    add_update();
    result_.update = last_section();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_trained(ValueId weight) const {
    return weight != kNone && graph().value(weight).kind == ValueKind::kTrainableWeight;
  }
  [[nodiscard]] const Graph& graph() const { return result_.graph; }
  [[nodiscard]] SectionId last_section() const { return static_cast<SectionId>(graph().sections.size() - 1); }

  [[nodiscard]] bool is_split() const { return options_.ranks > 1; }

  ValueId scalar(const char* name, DType dtype) { return b_.input(name, {dtype, {1}}, ValueKind::kBatch); }

  void add_batch_values() {
    result_.learning_rate = scalar("batch.learning_rate", DType::kF32);
    std::set<double> ratios;
    for (const auto& [weight, ratio] : options_.rate_ratios) ratios.insert(ratio);
    ratios.erase(1);
    for (const double ratio : ratios) {
      const std::string name = fmt::format("batch.learning_rate.{}", result_.other_rates.size());
      result_.other_rates.push_back({ratio, scalar(name.c_str(), DType::kF32)});
    }
    result_.step = scalar("batch.step", DType::kI32);
  }

  void add_step_state() {
    result_.optimizer = options_.optimizer;
    result_.optimizer_options = options_.optimizer_options;
    const ops::StepState* kept = options_.optimizer->step_state;
    if (kept == nullptr) return;
    result_.step_state = b_.input(fmt::format("optimizer.{}", options_.optimizer->name), {DType::kF32, {kept->elems}},
                                  ValueKind::kOptimizerState);
  }

  // Repeats all that is there for the other micro-batches. The last one's sums are those of the group.
  void add_group() {
    MicroBatchValues& first = result_.objective;
    first.dropout_seed = result_.model.dropout_seed;
    result_.group = {first};
    if (options_.micro_batches == 1) return;
    const auto axes = std::ssize(graph().axes);
    const size_t results = graph().results.size();
    const RepeatedValues repeated = repeat_by_block(result_.graph, options_.micro_batches);
    for (int64_t number = 1; number < options_.micro_batches; ++number) {
      const auto axis = [&](AxisId one) { return static_cast<AxisId>(static_cast<int64_t>(one) + number * axes); };
      MicroBatchValues& values = result_.group.emplace_back(first);
      for (BatchColumn& column : values.columns) column.value = repeated.of(column.value, number);
      values.scale = repeated.of(first.scale, number);
      values.dropout_seed = repeated.of(first.dropout_seed, number);
      values.loss_result += static_cast<size_t>(number) * results;
      values.tokens = axis(first.tokens);
      values.rows = axis(first.rows);
    }
    for (WeightGradient& g : gradients_) g.gradient = repeated.of(g.gradient, options_.micro_batches - 1);
  }

  // A persistent value beside a weight.
  ValueId state(std::string name, ValueId weight, const ValueType& type, ValueKind kind) {
    b_.set_block(graph().value(weight).block);
    const ValueId id = b_.input(std::move(name), type, kind);
    b_.end_block();
    return id;
  }

  void add_slices(TrainedWeight& t) {
    const Value weight = graph().value(t.weight);
    const Shape& shape = weight.type.shape;
    t.schema = options_.optimizer->states(options_.optimizer_options, ops::trained_tensor(b_, t.weight));
    const bool is_bf16 = weight.type.dtype != DType::kF32, has_master = is_bf16 && options_.masters;
    if (is_bf16 && !has_master) t.schema = ops::bf16_states(std::move(t.schema));
    const std::vector<ops::RowSlice> slices = ops::slice_rows(shape, options_.state_slice_elems, t.schema.slice_unit);
    for (size_t i = 0; i < slices.size(); ++i) {
      const auto add = [&](const ops::StateSpec& spec) {
        const std::string end = slices.size() > 1 ? fmt::format(".{}", i) : "";
        return state(fmt::format("{}.{}{}", spec.name, weight.name, end), t.weight,
                     ops::type_of(spec, slices[i], shape), ValueKind::kOptimizerState);
      };
      StateSlice& slice = t.slices.emplace_back(StateSlice{.rows = slices[i]});
      if (has_master) slice.master = add({.name = "master"});
      for (const ops::StateSpec& spec : t.schema.values) slice.states.push_back(add(spec));
      if (options_.optimizer->evaluated && !has_master)
        slice.kept_aside = add({.name = "trained", .dtype = weight.type.dtype});
      if (options_.ema) slice.ema = add({.name = "ema"});
    }
  }

  void add_states() {
    add_states(result_.model.parameters, false);
    if (result_.value) add_states(result_.value->parameters, true);
  }

  void add_states(const ParameterTable& parameters, bool is_value) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& p = parameters[i];
      if (!p.trained) continue;
      TrainedWeight t{.parameter = i, .is_value = is_value, .weight = p.value()};
      add_slices(t);
      if (options_.accumulates) t.accumulator = accumulator(t.weight, {DType::kF32, p.shape});
      gradients_.push_back(
          {.weight = p.value(), .dtype = gradient_dtype(p), .accumulator = is_split() ? kNone : t.accumulator});
      result_.trained.push_back(std::move(t));
    }
  }

  ValueId accumulator(ValueId weight, const ValueType& sum) {
    const ValueType type = is_split() ? ops::part_type(sum, options_.ranks) : sum;
    const ValueId id = state("gradient." + graph().value(weight).name, weight, type, ValueKind::kGradient);
    if (is_split()) b_.split(id);
    return id;
  }

  // Adds each gradient of the micro-batch to the sums of all ranks, right after it. From then on the sum is the
  // gradient.
  void add_to_parts() {
    const auto first = static_cast<OpId>(graph().ops.size());
    for (size_t i = 0; i < gradients_.size(); ++i) {
      WeightGradient& g = gradients_[i];
      b_.set_block(graph().value(g.weight).block);
      result_.graph.value(g.gradient).group = kNone;  // it goes nowhere but into the sum
      clear_other_rows(g);
      g.accumulator = result_.trained[i].accumulator;
      const ValueId sum = ops::reduce_scatter(b_, g.gradient, g.accumulator, options_.ranks);
      b_.update(g.accumulator, sum);
      g.gradient = sum;
    }
    b_.set_block(kNone);
    place_early(result_.graph, first, static_cast<OpId>(graph().ops.size()));
  }

  // Calls read(i, whole) for each gradient: `whole` is the gathered sum of several ranks, kNone on one. Each is
  // gathered while the one before it is read.
  template <typename Read>
  void read_gradients(const Read& read) {
    ValueId next = gather(0);
    for (size_t i = 0; i < gradients_.size(); ++i) {
      const ValueId whole = std::exchange(next, gather(i + 1));
      b_.set_block(graph().value(gradients_[i].weight).block);
      read(i, whole);
    }
  }
  ValueId gather(size_t i) {
    if (!is_split() || i >= gradients_.size()) return kNone;
    const Value& weight = graph().value(gradients_[i].weight);
    b_.set_block(weight.block);
    return ops::all_gather(b_, gradients_[i].gradient, weight.type.shape, options_.ranks);
  }

  // A sum over micro-batches needs f32, and so does what the fused loss sums over chunks. Otherwise the gradient of a
  // large bf16 matrix is rounded once, to bf16, as every framework keeps it; small ones stay f32.
  [[nodiscard]] DType gradient_dtype(const Parameter& p) const {
    const bool summed = options_.accumulates || p.role == ParameterRole::kHead || p.role == ParameterRole::kEmbedding;
    return options_.model.lora || summed || p.shape.rank() < 2 ? DType::kF32 : p.dtype;
  }

  ValueId add_loss() {
    const ops::LossGradients wanted =
        is_trained(result_.model.head) ? ops::LossGradients::kInputAndWeight : ops::LossGradients::kInput;
    result_.objective = objective_.append_loss(b_, result_.model, result_.value, wanted);
    return result_.objective.loss;
  }

  // Appends the update. Operations that a micro-batch can do right after its gradients are appended to the backward
  // section and then moved there.
  void add_update() {
    const bool early_norms = !options_.accumulates;
    const bool early_updates = options_.updates_early();
    const auto first = static_cast<OpId>(graph().ops.size());
    if (!early_norms) b_.begin_section(update_section());
    std::vector<ValueId> squares;
    read_gradients([&](size_t i, ValueId whole) {
      if (!is_split()) clear_other_rows(gradients_[i]);
      squares.push_back(ops::squared_norm(b_, is_split() ? whole : gradients_[i].gradient));
    });
    if (early_updates) add_updates(kNone);
    const auto end = static_cast<OpId>(graph().ops.size());

    if (early_norms) b_.begin_section(update_section());
    b_.set_block(kNone);
    const ops::ClipFactor clip = ops::clip_factor(b_, squares, options_.max_grad_norm);
    result_.norm_result = graph().results.size();
    b_.result(clip.norm);
    if (!early_updates) add_updates(clip.factor);
    if (early_norms) place_early(result_.graph, first, end);
  }

  void clear_other_rows(WeightGradient& g) {
    const Value& weight = graph().value(g.weight);
    const auto found = options_.trained_rows.find(weight.name);
    if (found == options_.trained_rows.end()) return;
    std::vector<ops::RowSlice> others;
    int64_t end = 0;
    for (const ops::RowSlice& rows : found->second) {
      others.push_back({end, rows.first - end});
      end = rows.first + rows.count;
    }
    others.push_back({end, weight.type.shape[0] - end});
    for (const ops::RowSlice& rows : others) {
      if (rows.count == 0) continue;
      const ValueId cleared = ops::zero_rows(b_, g.gradient, rows);
      if (g.accumulator != kNone) b_.update(g.gradient, cleared);
      g.gradient = cleared;
    }
  }

  void add_updates(ValueId clip) {
    ValueId step_state = kNone;
    if (result_.step_state != kNone) {
      b_.set_block(kNone);
      step_state = options_.optimizer->step_state->next(b_, result_.step_state, result_.learning_rate, result_.step,
                                                        options_.optimizer_options);
    }
    read_gradients([&](size_t i, ValueId whole) {
      const TrainedWeight& t = result_.trained[i];
      const ValueId sum = gradients_[i].gradient, gradient = is_split() ? whole : sum;
      ValueId weight = t.weight;
      for (const StateSlice& slice : t.slices) {
        weight = update(t, weight, slice, {.step_state = step_state, .gradient = gradient, .clip = clip});
        if (slice.ema == kNone) continue;
        b_.update(slice.ema, ops::ema(b_, slice.ema, exact_of(slice, weight), result_.step, slice.rows, *options_.ema));
      }
      if (t.accumulator != kNone) b_.update(sum, ops::zero(b_, sum));
    });
  }

  // Returns the most exact value of a slice that the last operation updated: the master, or the weight.
  [[nodiscard]] ValueId exact_of(const StateSlice& slice, ValueId weight) const {
    if (slice.master == kNone) return weight;
    for (const ValueId output : graph().ops.back().outputs)
      if (graph().value(output).updates == slice.master) return output;
    report_bug(__FILE__, __LINE__, "exact_of", "an update leaves its master as it is");
  }

  [[nodiscard]] ValueId rate_of(const std::string& weight) const {
    const auto ratio = options_.rate_ratios.find(weight);
    if (ratio == options_.rate_ratios.end() || ratio->second == 1) return result_.learning_rate;
    const auto has_ratio = [&](const OtherRate& one) { return one.ratio == ratio->second; };
    return std::find_if(result_.other_rates.begin(), result_.other_rates.end(), has_ratio)->value;
  }

  // Appends the update of a slice. `operands` are those that slices share. Returns the next version of the weight, of
  // which `weight` is the current one.
  ValueId update(const TrainedWeight& t, ValueId weight, const StateSlice& s, ops::UpdateOperands operands) {
    ops::OptimizerOptions options = options_.optimizer_options;
    const Parameter& p = result_.parameter_of(t);
    const bool spared = options_.optimizer->spares_embeddings && p.has_row_per_token();
    const std::string& name = graph().value(t.weight).name;
    if (!p.decays() || spared || options_.undecayed.contains(name)) options.set(ops::kWeightDecay.name, 0.0);
    operands.weight = weight;
    operands.master = s.master;
    operands.states = s.states;
    operands.learning_rate = rate_of(name);
    operands.step = result_.step;
    operands.rows = s.rows;
    if (p.dtype == DType::kF32 || s.master != kNone) return options_.optimizer->update(b_, operands, options);
    std::optional<ops::StochasticRounding> rounding;
    if (options_.rounding_seed) {
      rounding = {.seed = *options_.rounding_seed,
                  .stream = static_cast<int64_t>(random_stream_of(name)),
                  .step = result_.step};
    }
    return ops::update_bf16(b_, *options_.optimizer, operands, options, rounding);
  }

  const Model& model_;
  const TrainingGraphOptions& options_;
  TrainingGraph result_;
  ObjectiveBuilder objective_{model_, options_.model, options_.objective, options_.reference, options_.value};
  Builder b_{result_.graph, objective_.first_section(forward_section())};
  std::vector<WeightGradient> gradients_;
};

}  // namespace

std::span<const TrainedWeight> TrainingGraph::trained_of_model() const {
  const auto end = std::find_if(trained.begin(), trained.end(), [](const TrainedWeight& t) { return t.is_value; });
  return {trained.begin(), end};
}

TrainingGraph build_training_graph(const Model& model, const TrainingGraphOptions& options) {
  return TrainingGraphBuilder(model, options).run();
}

}  // namespace spillway::train
