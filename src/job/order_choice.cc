#include "job/order_choice.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "base/index.h"
#include "plan/search.h"
#include "plan/series_planner.h"

namespace spillway::train {
namespace {

// The training of a job in one of its other orders.
class OrderedTraining {
 public:
  OrderedTraining(const PlanningInputs& in, const PlanContext& context, int64_t group)
      : context_(context), training_(build_training_graph(*in.job.model, graph_options(in.job, group))) {
    context_.group = group;
    // Persistent values have the same ids in all orders, so that the policy's files are those of this graph, too.
    planner_ = std::make_unique<SeriesPlanner>(training_.graph, in.machine, in.policy, context_.runs());
  }

  [[nodiscard]] int64_t group() const { return context_.group; }
  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] double seconds() const { return context_.step_seconds(plan_.simulation); }
  [[nodiscard]] PlanContext::Order order() const { return order_of(plan_, context_); }
  // Makes the plan; the search also starts from the choices of plans in other orders.
  void make_plan(const Budget& budget, const std::vector<Choices>& starts) {
    for (const Choices& start : starts) planner_->start_from(start);
    plan_ = planner_->plan(budget);
  }
  // Returns plans for other budgets as points of a frontier, of infinite time where none fits.
  [[nodiscard]] std::vector<FrontierPoint> points(std::span<const Budget> budgets) {
    std::vector<FrontierPoint> result;
    for (const Found& found : planner_->coarse_plans(budgets)) {
      const Estimate& estimate = found.estimate;
      result.push_back({estimate.bytes, estimate.micro_step_seconds, estimate.update_seconds, group()});
      if (!found.fits) result.back().update_seconds = std::numeric_limits<double>::infinity();
    }
    return result;
  }
  // Moves graph and plan into `planned`. No other function may be called afterwards.
  void move_into(PlannedJob& planned) {
    planned.training = std::move(training_);
    planned.plan = std::move(plan_);
    planned.context.group = group();
  }

  [[nodiscard]] static PlanContext::Order order_of(const Plan& plan, const PlanContext& context) {
    PlanContext::Order order{
        .group = context.group, .fits = plan.fits, .step_seconds = context.step_seconds(plan.simulation)};
    for (const Tier tier : kEachBudgetedTier) nth(order.bytes, tier) = nth(plan.peaks, tier).bytes;
    return order;
  }

 private:
  PlanContext context_;
  TrainingGraph training_;
  std::unique_ptr<SeriesPlanner> planner_;  // of training_.graph
  Plan plan_;
};

// Returns true if a step takes clearly longer than computing everything once.
template <typename Timed>
bool takes_longer(const Timed& timed, int64_t runs, double computing_seconds) {
  return timed.step_seconds(runs) > kWorthOrder * (computing_seconds + timed.update_seconds);
}

using OrderedTrainings = std::vector<std::unique_ptr<OrderedTraining>>;

// Returns the smallest group of those that are as fast as the fastest; null if none fits.
OrderedTraining* fastest_of(const OrderedTrainings& all) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& one : all)
    if (one->plan().fits) least = std::min(least, one->seconds());
  OrderedTraining* best = nullptr;
  for (const auto& one : all) {
    if (!one->plan().fits || one->seconds() > least * (1 + kAsFast)) continue;
    if (best == nullptr || one->group() < best->group()) best = one.get();
  }
  return best;
}

// Replaces points by those of the other order where it is faster. From the largest to the smallest, each stays slower
// than the one before it.
void improve(std::vector<FrontierPoint>& frontier, OrderedTraining& other, const PlanContext& context,
             const Budget& budget, double computing_seconds) {
  std::vector<FrontierPoint*> slow;
  std::vector<Budget> budgets;
  for (FrontierPoint& point : frontier) {
    if (!takes_longer(point, context.runs(), computing_seconds)) continue;
    slow.push_back(&point);
    budgets.push_back(budget);
    budgets.back().device = point.device_bytes();
  }
  const std::vector<FrontierPoint> faster = other.points(budgets);
  for (size_t i = 0; i < slow.size(); ++i)
    if (kWorthOrder * context.step_seconds(faster[i]) <= context.step_seconds(*slow[i])) *slow[i] = faster[i];
  std::stable_sort(frontier.begin(), frontier.end(),
                   [](const FrontierPoint& a, const FrontierPoint& b) { return a.device_bytes() > b.device_bytes(); });
  double least = std::numeric_limits<double>::infinity();
  for (auto point = frontier.end(); point != frontier.begin();) {
    --point;
    const double seconds = context.step_seconds(*point);
    const bool is_first = point == frontier.begin();
    if (seconds > least && !is_first) point = frontier.erase(point);
    least = std::min(least, seconds);
  }
}

}  // namespace

bool may_gain_by_order(const Graph& graph, const Plan& plan, int64_t runs, double computing_seconds) {
  if (!takes_longer(plan.simulation, runs, computing_seconds)) return false;
  const Schedule& schedule = plan.schedule;
  for (size_t i = 0; i < schedule.sections.size(); ++i) {
    if (graph.sections[i].repeats != Repeats::kMicroBatch) continue;
    const auto begin = schedule.steps.begin();
    const auto is_state = [&](ValueId value) { return value != kNone && graph.persistent_root(value) != kNone; };
    // A rank brings it from lower tiers or, by an operation that gathers it, from other ranks.
    const auto brings_state = [&](const Step& step) {
      if (step.moved != kNone) return is_state(step.moved);
      const Operation* const op = step.op == kNone ? nullptr : &graph.op(step.op);
      return op != nullptr && op->def->collective && std::all_of(op->inputs.begin(), op->inputs.end(), is_state) &&
             op->outputs[0] != kNone && !is_state(op->outputs[0]);
    };
    if (std::any_of(begin + schedule.sections[i].begin, begin + schedule.sections[i].end, brings_state)) return true;
  }
  return false;
}

void choose_order(const PlanningInputs& in, PlannedJob& planned, std::vector<FrontierPoint>* frontier) {
  PlanContext& context = planned.context;
  const Graph& graph = planned.training.graph;
  if (frontier != nullptr)
    for (FrontierPoint& point : *frontier) point.group = context.group;
  // Where one micro-batch after another does not fit, a group that is the whole step may, which keeps no sums.
  const bool is_whole_step_alone = !planned.plan.fits && context.group == 1;
  if (in.job.other_groups.empty() || (is_whole_step_alone && !in.job.graph.model.train_base)) return;
  const double computing = SeriesPlanner(graph, in.machine, in.policy, context.runs()).computing_seconds();
  if (planned.plan.fits && !may_gain_by_order(graph, planned.plan, context.runs(), computing)) return;

  OrderedTrainings others;
  std::vector<Choices> starts = {planned.plan.choices};
  for (const int64_t group : in.job.other_groups) {
    if (is_whole_step_alone && group != context.accumulation) continue;
    others.push_back(std::make_unique<OrderedTraining>(in, context, group));
    others.back()->make_plan(in.budget, starts);
    context.other_orders.push_back(others.back()->order());
    if (!others.back()->plan().fits) continue;
    starts.push_back(others.back()->plan().choices);
    // A smaller group moves more: once it is slower, all others are.
    if (fastest_of(others) != others.back().get()) break;
  }
  OrderedTraining* const fastest = fastest_of(others);
  if (fastest == nullptr) return;
  if (frontier != nullptr) improve(*frontier, *fastest, context, in.budget, computing);
  if (planned.plan.fits && context.step_seconds(planned.plan.simulation) <= kWorthOrder * fastest->seconds()) return;
  const int64_t chosen = fastest->group();
  std::erase_if(context.other_orders, [&](const PlanContext::Order& order) { return order.group == chosen; });
  context.other_orders.insert(context.other_orders.begin(), OrderedTraining::order_of(planned.plan, context));
  fastest->move_into(planned);
}

}  // namespace spillway::train
