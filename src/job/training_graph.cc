#include "job/training_graph.h"

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "graph/autodiff.h"
#include "graph/place_early.h"
#include "job/micro_batch_group.h"
#include "job/trained_states.h"
#include "job/weight_update.h"
#include "objectives/frozen_copies.h"
#include "ops/add/add.h"
#include "ops/clip_factor/clip_factor.h"
#include "ops/collectives/all_gather/all_gather.h"
#include "ops/collectives/all_gather_rows/all_gather_rows.h"
#include "ops/collectives/own_part/own_part.h"
#include "ops/collectives/part.h"
#include "ops/collectives/reduce_scatter/reduce_scatter.h"
#include "ops/squared_norm/squared_norm.h"
#include "ops/zero/zero.h"

namespace spillway::train {
namespace {

class TrainingGraphBuilder {
 public:
  TrainingGraphBuilder(const Model& model, const TrainingGraphOptions& options, const Graph* homes = nullptr)
      : model_(model), options_(options) {
    if (homes != nullptr) b_.adopt(*homes);
  }

  TrainingGraph run() {
    SPILLWAY_CHECK(options_.accumulates || !is_split(), "{} ranks without sums", options_.ranks);
    SPILLWAY_CHECK(options_.micro_batches == 1 || options_.accumulates, "{} micro-batches at a time",
                   options_.micro_batches);
    SPILLWAY_CHECK(!options_.is_whole_step || (options_.micro_batches > 1 && !is_split()),
                   "a whole step of {} micro-batches on {} ranks", options_.micro_batches, options_.ranks);
    SPILLWAY_CHECK(!options_.drawn || (!options_.value && options_.optimizer->step_state == nullptr),
                   "drawn layers beside a value model or {}", options_.optimizer->name);
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
    TrainedStates states(b_, options_, result_);
    states.declare();
    gradients_ = states.gradients();
    learned_ = states.learned();
    append_backward(b_, add_losses(), gradients_, ops::add);
    if (is_split()) add_to_parts();
    if (is_split() && options_.splits_weights) split_weights();
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
  // Returns the weight of which a head is made, where fake quantisation rounds it.
  [[nodiscard]] ValueId weight_of(ValueId head) const {
    while (head != kNone && graph().value(head).producer != kNone)
      head = graph().op(graph().value(head).producer).inputs[0];
    return head;
  }
  [[nodiscard]] const Graph& graph() const { return result_.graph; }
  [[nodiscard]] SectionId last_section() const { return static_cast<SectionId>(graph().sections.size() - 1); }

  // Returns the weight of gradient `i`.
  [[nodiscard]] const TrainedWeight& trained(size_t i) const { return result_.trained[learned_[i]]; }

  [[nodiscard]] bool is_split() const { return options_.is_split(); }
  [[nodiscard]] int shards() const { return options_.shards(); }

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
    const size_t drawn = options_.drawn ? options_.drawn->numbers.size() : 0;
    for (size_t i = 0; i < drawn; ++i)
      result_.layer_steps.push_back(scalar(fmt::format("batch.step.{}", i).c_str(), DType::kI32));
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
    first.fake_quantises = result_.model.fake_quantises;
    result_.group = {first};
    if (options_.micro_batches == 1) return;
    auto [group, repeated] = repeat_micro_batches(result_.graph, first, options_.micro_batches,
                                                  options_.is_whole_step ? ops::zeros : nullptr);
    result_.group = std::move(group);
    const auto take_last = [this, &values = repeated](ValueId& sum) {
      sum = values.of(sum, options_.micro_batches - 1);
    };
    for (WeightGradient& g : gradients_) take_last(g.gradient);
    for (std::vector<ValueId>& parts : sums_) std::for_each(parts.begin(), parts.end(), take_last);
    if (options_.is_whole_step) {
      for (WeightGradient& g : gradients_) g.accumulator = kNone;
      for (TrainedWeight& t : result_.trained) t.accumulator = kNone;
    }
  }

  // Adds each gradient of the micro-batch to the sums of all ranks, right after it. From then on the sum is the
  // gradient.
  void add_to_parts() {
    const auto first = static_cast<OpId>(graph().ops.size());
    const ops::SumRanks over = {.ranks = shards(), .copies = options_.copies, .together = options_.together};
    for (size_t i = 0; i < gradients_.size(); ++i) {
      WeightGradient& g = gradients_[i];
      b_.set_block(graph().value(g.weight).block);
      result_.graph.value(g.gradient).group = kNone;  // it goes nowhere but into the sum
      clear_other_rows(g);
      const TrainedWeight& t = trained(i);
      std::vector<ValueId>& sums = sums_.emplace_back();
      const auto add = [&](ValueId accumulator, const ops::RowSlice& rows) {
        sums.push_back(ops::reduce_scatter(b_, g.gradient, accumulator, rows, over, kTokenAxis));
        b_.update(accumulator, sums.back());
      };
      if (t.is_split) {
        for (const StateSlice& slice : t.slices) add(slice.accumulator, slice.rows);
      } else {
        add(t.accumulator, {0, graph().value(t.weight).type.shape[0]});
        g.gradient = sums.back();
      }
    }
    b_.set_block(kNone);
    place_early(result_.graph, first, static_cast<OpId>(graph().ops.size()));
  }

  // Cuts all weights that are larger than a part, but for those that are updated as a whole.
  void split_weights() {
    result_.wholes.emplace();
    Builder(*result_.wholes).adopt(graph());
    std::set<ValueId> kept;
    for (const TrainedWeight& t : result_.trained)
      if (!t.is_split) kept.insert(t.weight);
    for (ValueId id = 0; id < static_cast<ValueId>(graph().values.size()); ++id) {
      const Value& value = graph().value(id);
      const bool is_weight = value.kind == ValueKind::kFrozenWeight || value.kind == ValueKind::kTrainableWeight;
      if (!graph().is_persistent(id) || !is_weight || kept.contains(id)) continue;
      const Cut cut = cut_of(value.type.shape.elems(), shards());
      if (cut.part_elems >= cut.elems) continue;
      result_.parts.emplace(id, cut);
      result_.split_weights.insert(value.name);
    }
    train::split_weights(result_.graph, shards(), result_.split_weights);
  }

  // Returns the whole of a sum; where ranks have parts of it, they gather it.
  ValueId whole_sum(size_t i) {
    if (wholes_[i] != kNone) return wholes_[i];
    const Shape& shape = graph().value(gradients_[i].weight).type.shape;
    return is_split() ? ops::all_gather(b_, gradients_[i].gradient, shape, shards()) : gradients_[i].gradient;
  }
  // Returns true if one rank has all of a sum, which then stays whole from the norm to the update.
  [[nodiscard]] bool is_in_one_part(size_t i) const {
    const TrainedWeight& t = trained(i);
    if (t.is_split) return false;
    const Cut& cut = result_.parts.at(t.accumulator);
    return cut.part_elems >= cut.elems;
  }

  // Returns what is differentiated: the objective's loss, and the model's own.
  std::vector<ValueId> add_losses() {
    const ops::LossGradients wanted =
        is_trained(weight_of(result_.model.head)) ? ops::LossGradients::kInputAndWeight : ops::LossGradients::kInput;
    result_.objective = objective_.append_loss(b_, result_.model, result_.value, wanted);
    std::vector<ValueId> losses = {result_.objective.loss};
    if (result_.model.router_loss) losses.push_back(result_.model.router_loss->weighted);
    return losses;
  }

  // Appends the update. Operations that a micro-batch can do right after its gradients are appended to the backward
  // section and then moved there.
  void add_update() {
    const bool early_norms = !options_.accumulates || options_.is_whole_step;
    const bool early_updates = result_.updates_early = options_.updates_early();
    const auto first = static_cast<OpId>(graph().ops.size());
    if (!early_norms) b_.begin_section(update_section());
    std::vector<ValueId> squares(gradients_.size(), kNone);
    std::vector<std::vector<ValueId>> blocks(gradients_.size());
    wholes_.assign(gradients_.size(), kNone);
    for (size_t i = 0; i < gradients_.size(); ++i) {
      b_.set_block(graph().value(gradients_[i].weight).block);
      if (is_split() && !is_in_one_part(i)) {
        blocks[i] = gathered_squares(i);
        continue;
      }
      if (!is_split()) clear_other_rows(gradients_[i]);
      wholes_[i] = whole_sum(i);
      squares[i] = ops::squared_norm(b_, wholes_[i]);
    }
    for (size_t i = 0; i < squares.size(); ++i)
      if (!blocks[i].empty()) squares[i] = ops::squared_norm_of_blocks(b_, blocks[i]);
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

  // Returns the sums of blocks of a gradient that is in parts.
  std::vector<ValueId> gathered_squares(size_t i) {
    std::vector<ValueId> result;
    for (size_t s = 0; s < sums_[i].size(); ++s) {
      const TrainedWeight& t = trained(i);
      const ValueId squares = ops::block_squares(b_, sums_[i][s]);
      const ValueId sum = t.is_split ? t.slices[s].accumulator : t.accumulator;
      const int64_t blocks = div_ceil(result_.parts.at(sum).elems, kCutBlock);
      result.push_back(ops::all_gather(b_, squares, {blocks}, shards(), 1));
    }
    return result;
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
    take_part(0, 0);
    for (size_t i = 0; i < gradients_.size(); ++i) {
      b_.set_block(graph().value(gradients_[i].weight).block);
      const TrainedWeight& t = trained(i);
      if (t.is_split) {
        update_parts(i, {.step_state = step_state, .clip = clip});
        continue;
      }
      const ValueId sum = gradients_[i].gradient, gradient = whole_sum(i);
      ValueId weight = t.weight;
      for (const StateSlice& slice : t.slices) {
        weight = update(t, weight, slice, {.step_state = step_state, .gradient = gradient, .clip = clip});
      }
      if (t.accumulator != kNone) b_.update(sum, ops::zero(b_, sum));
    }
  }

  // Appends the updates of this rank's parts of a weight, and makes the weight whole again unless it is split. Each new
  // part is gathered while the next one is updated.
  void update_parts(size_t i, const ops::UpdateOperands& operands) {
    const TrainedWeight& t = trained(i);
    ValueId weight = t.weight;
    for (size_t s = 0; s < t.slices.size(); ++s) {
      StateSlice slice = t.slices[s];
      const ops::RowSlice rows = std::exchange(slice.rows, {0, b_.type(slice.accumulator).shape[0]});
      ops::UpdateOperands own = operands;
      own.gradient = sums_[i][s];
      const bool is_in_place = result_.parts.contains(t.weight);
      const ValueId next = update(t, is_in_place ? t.weight : next_part_, slice, std::move(own));
      if (!is_in_place) result_.graph.value(next).updates = kNone;  // it is a copy that the graph has made
      b_.update(sums_[i][s], ops::zero(b_, sums_[i][s]));
      if (is_in_place) continue;
      s + 1 < t.slices.size() ? take_part(i, s + 1, weight) : take_part(i + 1, 0);
      b_.set_block(graph().value(t.weight).block);
      const ValueId whole = ops::all_gather_rows(b_, next, weight, rows, shards());
      b_.update(weight, whole);
      weight = whole;
    }
  }

  // Sets next_part_ to this rank's part of a slice; `weight` is the weight's current version where it is another one.
  // Goes on to the next weight with parts if this one has none.
  void take_part(size_t i, size_t s, ValueId weight = kNone) {
    const auto is_passed = [&](const TrainedWeight& t) { return !t.is_split || result_.parts.contains(t.weight); };
    while (i < learned_.size() && is_passed(trained(i))) ++i;
    if (i == learned_.size()) return;
    const TrainedWeight& t = trained(i);
    b_.set_block(graph().value(t.weight).block);
    next_part_ = ops::own_part(b_, weight == kNone ? t.weight : weight, t.slices[s].rows, shards());
  }

  // Appends the update of a slice; `operands` are those that slices share. Returns the next version of the weight.
  ValueId update(const TrainedWeight& t, ValueId weight, const StateSlice& slice, ops::UpdateOperands operands) {
    operands.weight = weight;
    const ValueId next = append_update(b_, result_, options_, t, slice, std::move(operands));
    if (slice.ema == kNone) return next;
    const ValueId exact = updated_slice(graph(), slice, next);
    b_.update(slice.ema, ops::ema(b_, slice.ema, exact, result_.step, slice.rows, *options_.ema));
    return next;
  }

  const Model& model_;
  const TrainingGraphOptions& options_;
  TrainingGraph result_;
  ObjectiveBuilder objective_{model_, options_.model, options_.objective, options_.reference, options_.value};
  Builder b_{result_.graph, objective_.first_section(forward_section())};
  std::vector<WeightGradient> gradients_;
  std::vector<size_t> learned_;             // by gradient: its weight in result_.trained
  std::vector<std::vector<ValueId>> sums_;  // of several ranks: by gradient, its parts' next versions, by slice
  std::vector<ValueId> wholes_;             // by gradient: its sum as a whole, where the update finds it
  ValueId next_part_ = kNone;               // of the weight's slice that is updated next
};

}  // namespace

std::span<const TrainedWeight> TrainingGraph::trained_of_model() const {
  const auto end = std::find_if(trained.begin(), trained.end(), [](const TrainedWeight& t) { return t.is_value; });
  return {trained.begin(), end};
}

TrainingGraph build_training_graph(const Model& model, const TrainingGraphOptions& options) {
  return TrainingGraphBuilder(model, options).run();
}

TrainingGraph build_training_graph(const Model& model, const TrainingGraphOptions& options, const Graph& homes) {
  return TrainingGraphBuilder(model, options, &homes).run();
}

}  // namespace spillway::train
