#include "job/planned_job.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "graph/verify.h"
#include "graph/verify_group.h"
#include "job/draw_planner.h"
#include "job/forward_groups.h"
#include "job/generation_plan.h"
#include "job/offload_policy.h"
#include "job/order_choice.h"
#include "job/plan_beside.h"
#include "job/reference.h"
#include "model/layout.h"
#include "plan/shortage.h"
#include "rewards/outside.h"

namespace spillway::train {
namespace {

// Returns the weights that may stay in the model's files; none if the folder has no weights, which plans do not need.
StoredWeights stored_weights(const Job& job, const TrainingGraph& training) {
  StoredWeights stored;
  const auto add = [&](const ParameterTable& parameters, const std::filesystem::path& folder) {
    if (has_weights(folder)) add_stored_weights(parameters, open_weights(folder), stored);
  };
  if (!job.config.model.reinitialised) add(training.model.parameters, job.config.model.base_model);
  const bool is_of_adapter = job.graph.reference.model && !job.graph.reference.other && job.config.adapter &&
                             !job.config.adapter->model_dir.empty();
  if (training.objective.copies.size() > 0 && !is_of_adapter && !training.objective.copies_change)
    add(training.objective.copies, reference_folder(job.config));
  for (size_t i = 0; i < training.beside.size(); ++i) add(training.beside[i], job.graph.beside[i].folder);
  std::erase_if(stored.places, [&](const auto& place) { return training.parts.contains(place.first); });
  return stored;
}

int64_t stored_bytes(const Graph& graph, const StoredWeights& stored) {
  int64_t sum = 0;
  for (const auto& [id, place] : stored.places) sum += graph.value(id).type.bytes();
  return sum;
}

int64_t ram_bytes(const Machine& machine) {
  const int64_t host = nth(machine.capacity_bytes, Tier::kHost);
  return host > 0 ? host : nth(machine.capacity_bytes, Tier::kDevice);
}

// Returns the part of the job's budget that the arenas may have: reading files past the page cache takes memory beside
// them. It is negative if that alone exceeds the budget, so that the missing bytes include it.
Budget arena_budget(const Job& job, bool direct_files) {
  Budget budget = job.budget;
  std::optional<int64_t>& ram = budget.host ? budget.host : budget.device;
  if (direct_files && ram) *ram -= TierOptions::staging_bytes();
  return budget;
}

Policy policy_of(const Job& job, const TrainingGraph& training, const StoredWeights& stored) {
  Policy policy = job.policy;
  if (job.budget.disk.value_or(0) > 0) policy.own_files.held = stored.held(training.graph.values.size());
  return policy;
}

// Plans every other program of the job beside training's plan.
void plan_others(const PlanningInputs& in, PlannedJob& planned) {
  planned.beside = row_programs(in.job, planned.training);
  for (JobProgram& program : planned.beside) plan_in_group(in, planned, program);
  if (in.job.kind->generation(in.job).at_once > 0 || !in.job.samples.empty()) plan_generation(in, planned);
  planned.context.beside.clear();
  for (const JobProgram& program : planned.beside) {
    PlanContext::Program& beside = planned.context.beside.emplace_back();
    beside.name = program.name;
    beside.group = std::max<int64_t>(1, std::ssize(program.group));
    for (size_t i = 0; i < kBudgetedTiers; ++i) beside.bytes[i] = program.plan.peaks[i].bytes;
  }
  plan_draws(in, planned);
}

// Returns true if a program beside training exceeds the budget of a tier.
bool is_short(const PlanContext& context, const PlanContext::Program& program, Tier tier) {
  return nth(program.bytes, tier) > context.budget.of(tier).value_or(nth(program.bytes, tier));
}

bool others_fit(const PlanContext& context) {
  return std::none_of(context.beside.begin(), context.beside.end(),
                      [&](const PlanContext::Program& program) { return is_short(context, program, Tier::kDevice); });
}

// Makes room on the device for programs that do not fit beside training's plan: plans training again within the device
// budgets of its frontier, the fastest first, until what it keeps there leaves enough. Keeps the first plans if none
// does.
void make_room_for_others(const PlanningInputs& in, std::span<const FrontierPoint> frontier, PlannedJob& planned) {
  Plan first = planned.plan;
  Budget smaller = in.budget;
  for (const FrontierPoint& point : frontier) {
    if (others_fit(planned.context)) return;
    if (point.device_bytes() >= nth(planned.plan.peaks, Tier::kDevice).bytes) continue;
    smaller.device = point.device_bytes();
    Plan plan = make_plan(planned.training.graph, in.machine, smaller, in.policy, planned.context.runs());
    if (!plan.fits) continue;
    planned.plan = std::move(plan);
    plan_others(in, planned);
  }
  if (others_fit(planned.context)) return;
  planned.plan = std::move(first);
  plan_others(in, planned);
}

// Describes the reference for users.
std::optional<PlanContext::Reference> reference_of(const Job& job, const PlannedJob& planned) {
  const ReferenceOptions& reference = job.graph.reference;
  if (!reference.model) return {};
  if (reference.is_precomputed) return PlanContext::Reference{"scores all rows before the first step; no copies"};
  const ParameterTable& copies = planned.training.objective.copies;
  if (copies.size() == 0) return PlanContext::Reference{"the model without the adapter; no copies"};
  PlanContext::Reference result{reference.other ? fmt::format("{}, frozen", reference_folder(job.config).string())
                                                : "frozen copies"};
  for (const Operand& home : planned.plan.program.homes) {
    const bool is_copy = std::any_of(copies.begin(), copies.end(), [&](const Parameter& p) {
      return std::find(p.values.begin(), p.values.end(), home.value) != p.values.end();
    });
    if (is_copy) nth(result.copy_bytes, home.place.tier) += home.place.bytes;
  }
  return result;
}

}  // namespace

Plan plan_beside(const PlanningInputs& in, const PlannedJob& planned, const Graph& graph, std::span<const Rule> rules) {
  return make_plan_beside(planned.training.graph, planned.plan.choices, graph, in.machine, in.budget,
                          in.policy.own_files, rules);
}

const JobProgram* PlannedJob::find(JobProgram::Kind kind, size_t number) const {
  for (const JobProgram& program : beside)
    if (program.kind == kind && number-- == 0) return &program;
  return nullptr;
}

int64_t PlannedJob::together(JobProgram::Kind kind, size_t number) const {
  return std::ssize(find(kind, number)->group);
}

int64_t peak_bytes(const PlannedJob& planned, Tier tier) {
  const int64_t of_draws = planned.draws ? nth(planned.draws->needs().arena_bytes, tier) : 0;
  return std::max({nth(planned.plan.peaks, tier).bytes, of_draws, peak_bytes(planned.beside, tier)});
}

int64_t arena_bytes(const PlannedJob& planned, Tier tier) {
  int64_t most = nth(planned.plan.program.arena_bytes, tier);
  if (planned.draws) most = std::max(most, nth(planned.draws->needs().arena_bytes, tier));
  for (const JobProgram& program : planned.beside) most = std::max(most, nth(program.plan.program.arena_bytes, tier));
  return most;
}

std::string shortage_beside(const PlannedJob& planned) {
  const PlanContext& context = planned.context;
  for (const PlanContext::Program& program : context.beside) {
    for (size_t i = 0; i < kBudgetedTiers; ++i) {
      const auto tier = static_cast<Tier>(i);
      if (!is_short(context, program, tier)) continue;
      const std::string needed = format_bytes_up(program.bytes[i]), got = format_bytes(*context.budget.of(tier));
      if (planned.streamed_bytes > 0)
        return fmt::format(
            "[ds3_gather_for_generation] expected at least {} of {} for all weights on the device while "
            "completions are generated, got {}; raise it, or set false, which takes {}",
            needed, context.budget_keys[i], got, format_bytes_up(planned.streamed_bytes));
      return fmt::format("[{}] expected at least {} for {}, got {}; raise it, or ask for less", context.budget_keys[i],
                         needed, program.name, got);
    }
  }
  return "";
}

bool fits(const PlannedJob& planned) { return planned.plan.fits && shortage_beside(planned).empty(); }

void check_fits(const PlannedJob& planned) {
  if (!planned.plan.fits) throw InputError(shortage_message(planned.plan, planned.context));
  if (const std::string missing = shortage_beside(planned); !missing.empty()) throw InputError(missing);
}

namespace {

// Returns the bytes that all budgets lack.
int64_t missing_bytes(const PlannedJob& planned) {
  const Budget& budget = planned.context.budget;
  int64_t sum = 0;
  for (const Tier tier : kEachBudgetedTier) {
    const int64_t beside = peak_bytes(planned.beside, tier);
    sum += std::max(nth(planned.plan.missing_bytes, tier), beside - budget.of(tier).value_or(beside));
  }
  return sum;
}

// Checks that the micro-batches of a group share nothing but sums.
void check_group(const TrainingGraph& training) {
  if (training.group.size() == 1) return;
  std::vector<std::vector<ValueId>> inputs;
  for (const MicroBatchValues& values : training.group) inputs.push_back(values.inputs());
  const std::vector<std::string> violations = verify_group(training.graph, inputs);
  SPILLWAY_CHECK(violations.empty(), "the graph of training is wrong: {}", violations.front());
}

// Plans training by `planner`, or by make_plan() where it is empty, and the other programs beside it. Another order of
// micro-batches is taken only if `chooses_order`.
PlannedJob plan_programs(const Job& job, const Machine& machine, TrainingGraph training,
                         std::vector<FrontierPoint>* frontier, const TrainingPlanner& planner, bool chooses_order) {
  PlannedJob result{.training = std::move(training)};
  const Graph& graph = result.training.graph;
  result.context = {.title = job.title,
                    .budget = job.budget,
                    .ranks = job.config.ranks.count,
                    .zero_stage = job.config.ranks.zero_stage,
                    .context = job.config.ranks.context,
                    .copies = job.config.ranks.copies,
                    .accumulation = micro_batches_of_rank(job),
                    .group = job.graph.micro_batches,
                    .updates = updates_per_step(job),
                    .sums_by_host = job.config.ranks.together > 1};
  result.context.budget_keys = budget_keys(job.config.memory);
  if (job.budget.disk.value_or(0) > 0) {
    result.stored = stored_weights(job, result.training);
    const int64_t ram = ram_bytes(machine);
    result.direct_files = ram > 0 && stored_bytes(graph, result.stored) > ram / 2;
  }
  const Budget budget = arena_budget(job, result.direct_files);
  Policy policy = policy_of(job, result.training, result.stored);
  result.plan = planner ? planner(budget) : make_plan(graph, machine, budget, policy, result.context.runs(), frontier);
  if (chooses_order) choose_order({job, machine, budget, policy}, result, frontier);
  policy = policy_of(job, result.training, result.stored);
  const PlanningInputs inputs{job, machine, budget, policy};
  plan_others(inputs, result);
  const bool is_other_order = result.context.group != job.graph.micro_batches;
  if (is_other_order && result.plan.fits && !others_fit(result.context))  // beside the first order they may
    return plan_programs(job, machine, build_training_graph(*job.model, job.graph), frontier, planner, false);
  if (result.plan.fits && !others_fit(result.context)) {
    std::vector<FrontierPoint> points;
    if (!frontier) (void)make_plan(graph, machine, budget, policy, result.context.runs(), &points);
    make_room_for_others(inputs, frontier ? *frontier : points, result);
  }
  result.context.generation = job.kind->forecast(job, result.beside, machine);
  result.context.reference = reference_of(job, result);
  if (job.graph.value)
    result.context.value_model = fmt::format("{}, trained in full: its layers stand behind the model's",
                                             rewards::file_name(job.graph.value->folder));
  const auto check = [](std::string_view name, const Graph& one) {
    const std::vector<std::string> violations = verify(one);
    SPILLWAY_CHECK(violations.empty(), "the graph of {} is wrong: {}", name, violations.front());
  };
  check("training", graph);
  for (const JobProgram& program : result.beside) check(program.name, program.graph);
  check_group(result.training);
  return result;
}

// Returns true if a rank's device has no room for the weights that no key puts elsewhere.
bool lacks_room_for_weights(const Job& job, const Graph& graph) {
  int64_t bytes = 0;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
    const Value& value = graph.value(id);
    const bool is_weight = value.kind == ValueKind::kFrozenWeight || value.kind == ValueKind::kTrainableWeight;
    if (!is_weight || !graph.is_persistent(id)) continue;
    const std::optional<Tier> said =
        value.group == kNone ? std::nullopt : job.policy.home_of(nth(graph.groups, value.group));
    if (said.value_or(Tier::kDevice) == Tier::kDevice) bytes += value.type.bytes();
  }
  return bytes > job.budget.device.value_or(bytes);
}

}  // namespace

Policy training_policy(const Job& job, const TrainingGraph& training) {
  return policy_of(job, training, job.budget.disk.value_or(0) > 0 ? stored_weights(job, training) : StoredWeights());
}

PlannedJob plan_job(const Job& job, const Machine& machine) {
  return plan_job(job, machine, build_training_graph(*job.model, job.graph));
}

PlannedJob plan_job(const Job& job, const Machine& machine, TrainingGraph training,
                    std::vector<FrontierPoint>* frontier) {
  if (!job.config.ranks.chooses_stage) return plan_programs(job, machine, std::move(training), frontier, {}, true);
  Job split = job;
  split.config.ranks.zero_stage = 3;
  split.graph.splits_weights = true;
  std::vector<FrontierPoint> points;
  const auto plan_split = [&] {
    return plan_programs(split, machine, build_training_graph(*job.model, split.graph),
                         frontier != nullptr ? &points : nullptr, {}, true);
  };
  std::optional<PlannedJob> first;
  if (lacks_room_for_weights(job, training.graph)) first = plan_split();
  if (first && fits(*first)) {
    if (frontier != nullptr) *frontier = std::move(points);
    return std::move(*first);
  }
  PlannedJob planned = plan_programs(job, machine, std::move(training), frontier, {}, true);
  if (fits(planned)) return planned;
  PlannedJob smaller = first ? std::move(*first) : plan_split();
  if (!fits(smaller) && missing_bytes(smaller) >= missing_bytes(planned)) return planned;
  if (frontier != nullptr) *frontier = std::move(points);
  return smaller;
}

PlannedJob plan_job(const Job& job, const Machine& machine, TrainingGraph training, const TrainingPlanner& planner) {
  return plan_programs(job, machine, std::move(training), nullptr, planner, true);
}

}  // namespace spillway::train
