#include "job/generation_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/index.h"
#include "job/forward_groups.h"
#include "plan/hiding_count.h"

namespace spillway::train {
namespace {

using Programs = std::vector<JobProgram>;

// Keys and values then come to the device layer by layer, for each token position.
constexpr Rule kCachesOnHost{{.kind = ValueKind::kCache}, Tier::kHost};

bool fits(const Programs& programs) {
  return std::all_of(programs.begin(), programs.end(), [](const JobProgram& program) { return program.plan.fits; });
}

Programs planned_with(const PlanningInputs& in, const PlannedJob& planned, const infer::GenerationSizes& sizes,
                      const infer::ParameterNames& gathered, std::span<const Rule> rules) {
  Programs programs = generation_programs(in.job, planned.training, sizes, gathered);
  for (JobProgram& program : programs) program.plan = plan_beside(in, planned, program.graph, rules);
  return programs;
}

// Where a run over prompts waits for weights, it reads more tokens of them, as many as fit.
Programs planned_for(const PlanningInputs& in, const PlannedJob& planned, int64_t at_once,
                     const infer::ParameterNames& gathered, std::span<const Rule> rules = {}) {
  const infer::GenerationSizes sizes = generation_sizes_of(in.job, at_once);
  Programs programs = planned_with(in, planned, sizes, gathered, rules);
  if (!fits(programs)) return programs;
  const auto prompt_of = [](const Programs& all) -> const Plan& {
    return std::find_if(all.begin(), all.end(),
                        [](const JobProgram& one) { return one.kind == JobProgram::Kind::kPrompt; })
        ->plan;
  };
  const Plan& shorter = prompt_of(programs);
  for (int64_t count = infer::longer_runs(shorter, sizes); count > 1; count /= 2) {
    Programs longer = planned_with(in, planned, sizes.with_longer_runs(count), gathered, rules);
    const Plan& prompt = prompt_of(longer);
    if (fits(longer) && fits_instead(in, planned, shorter, prompt) && gains_together(prompt, shorter, count))
      return longer;
  }
  return programs;
}

// Plans as many completions at once as fit beside what training keeps, by halves. Where not even one fits, keys and
// values go to host memory, if there is a budget for it; where that does not help, what is missing on the device is
// said.
Programs as_many_as_fit(const PlanningInputs& in, const PlannedJob& planned,
                        const infer::ParameterNames& gathered = {}) {
  for (int64_t at_once = in.job.kind->generation(in.job).at_once;; at_once /= 2) {
    Programs programs = planned_for(in, planned, at_once, gathered);
    if (fits(programs)) return programs;
    if (at_once > 1) continue;
    if (in.budget.host.value_or(0) == 0) return programs;
    Programs on_host = planned_for(in, planned, at_once, gathered, {&kCachesOnHost, 1});
    return fits(on_host) ? on_host : programs;
  }
}

// Returns the weights of which training has less than all on the device: in other tiers, or on other ranks.
infer::ParameterNames weights_elsewhere(const PlannedJob& planned) {
  std::vector<bool> is_elsewhere(planned.training.graph.values.size());
  for (const Operand& home : planned.plan.program.homes)
    nth(is_elsewhere, home.value) = home.place.tier != Tier::kDevice;
  for (const auto& [value, cut] : planned.training.parts) nth(is_elsewhere, value) = true;
  infer::ParameterNames names;
  for (const Parameter& p : planned.training.model.parameters) {
    const bool is_any =
        std::any_of(p.values.begin(), p.values.end(), [&](ValueId value) { return nth(is_elsewhere, value); });
    if (is_any) names.insert(p.name);
  }
  return names;
}

}  // namespace

void plan_generation(const PlanningInputs& in, PlannedJob& planned) {
  const infer::ParameterNames elsewhere = weights_elsewhere(planned);
  const std::optional<bool> asked = in.job.kind->generation(in.job).gathers_weights;
  const auto take = [&](Programs programs) {
    std::move(programs.begin(), programs.end(), std::back_inserter(planned.beside));
  };
  if (asked == true && !elsewhere.empty()) {
    Programs gathered = as_many_as_fit(in, planned, elsewhere);
    planned.streamed_bytes = !fits(gathered) ? peak_bytes(as_many_as_fit(in, planned), Tier::kDevice) : 0;
    return take(std::move(gathered));
  }
  Programs streamed = as_many_as_fit(in, planned);
  if (elsewhere.empty() || asked) return take(std::move(streamed));
  Budget budget = in.budget;
  // Weights that other ranks have take longer to stream than to gather, wherever there is room.
  const bool are_split = !planned.training.split_weights.empty();
  if (!budget.device && !are_split)
    budget.device = std::max(planned.plan.peaks[0].bytes, peak_bytes(streamed, Tier::kDevice));
  Programs gathered = as_many_as_fit({in.job, in.machine, budget, in.policy}, planned, elsewhere);
  const auto seconds = [&](const Programs& programs) {
    return in.job.kind->forecast(in.job, programs, in.machine).value().seconds;
  };
  const bool is_gathered = fits(gathered) && (!fits(streamed) || seconds(gathered) < seconds(streamed));
  take(std::move(is_gathered ? gathered : streamed));
}

}  // namespace spillway::train
