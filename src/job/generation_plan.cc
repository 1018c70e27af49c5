#include "job/generation_plan.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "base/sizes.h"
#include "job/online/round_forecast.h"

namespace spillway::train {
namespace {

using Generation = PlannedJob::Generation;

// Keys and values then come to the device layer by layer, for each token position.
constexpr Rule kCachesOnHost{{.kind = ValueKind::kCache}, Tier::kHost};

Generation planned_for(const PlanningInputs& in, const PlannedJob& planned, int64_t at_once,
                       const infer::ParameterNames& gathered, std::span<const Rule> rules = {}) {
  Generation generation;
  generation.name = in.job.online ? "generation" : "the answers to sample_prompts";
  generation.prompt_name = in.job.online ? "prompts of a round" : "sample_prompts";
  generation.graphs = infer::build_generation_graphs(
      *in.job.model, in.job.graph.model, generation_sizes_of(in.job, at_once), &planned.training.graph, gathered);
  generation.decode = plan_beside(in, planned, generation.graphs.decode.graph, rules);
  generation.prompt = plan_beside(in, planned, generation.graphs.prompt.graph, rules);
  if (generation.graphs.gather) generation.gather = plan_beside(in, planned, *generation.graphs.gather, rules);
  return generation;
}

bool fits(const Generation& generation) {
  return generation.decode.fits && generation.prompt.fits && (!generation.gather || generation.gather->fits);
}

// Plans as many completions at once as fit beside what training keeps, by halves. Where not even one fits, keys and
// values go to host memory, if there is a budget for it; where that does not help, what is missing on the device is
// said.
Generation as_many_as_fit(const PlanningInputs& in, const PlannedJob& planned,
                          const infer::ParameterNames& gathered = {}) {
  for (int64_t at_once = in.job.online ? in.job.online->most_at_once : 0;; at_once /= 2) {
    Generation generation = planned_for(in, planned, at_once, gathered);
    if (fits(generation)) return generation;
    if (at_once > 1) continue;
    if (in.budget.host.value_or(0) == 0) return generation;
    Generation on_host = planned_for(in, planned, at_once, gathered, {&kCachesOnHost, 1});
    return fits(on_host) ? on_host : generation;
  }
}

// Returns the weights that training keeps away from the device.
infer::ParameterNames weights_elsewhere(const PlannedJob& planned) {
  std::vector<bool> is_elsewhere(planned.training.graph.values.size());
  for (const Operand& home : planned.plan.program.homes)
    nth(is_elsewhere, home.value) = home.place.tier != Tier::kDevice;
  infer::ParameterNames names;
  for (const Parameter& p : planned.training.model.parameters) {
    const bool is_any =
        std::any_of(p.values.begin(), p.values.end(), [&](ValueId value) { return nth(is_elsewhere, value); });
    if (is_any) names.insert(p.name);
  }
  return names;
}

double round_seconds(const PlanningInputs& in, PlannedJob& planned, const Generation& generation) {
  planned.generation = generation;
  return forecast_round(in.job, planned, in.machine).seconds;
}

int64_t device_bytes(const Generation& generation) {
  return std::max(generation.decode.peaks[0].bytes, generation.prompt.peaks[0].bytes);
}

}  // namespace

infer::GenerationSizes generation_sizes_of(const Job& job, int64_t at_once) {
  std::vector<int64_t> lengths;
  for (const infer::Prompt& prompt : job.samples.prompts) lengths.push_back(prompt.sequence_tokens());
  if (job.online) append_repeated(lengths, at_once, job.online->sequence_len);
  return infer::generation_sizes(std::move(lengths), job.online ? std::max<int64_t>(at_once, 1) : infer::kMaxSequences);
}

void plan_generation(const PlanningInputs& in, PlannedJob& planned) {
  const infer::ParameterNames elsewhere = in.job.online ? weights_elsewhere(planned) : infer::ParameterNames{};
  const std::optional<bool> asked = in.job.online ? in.job.config.online->gathers_weights : false;
  if (asked == true && !elsewhere.empty()) {
    Generation gathered = as_many_as_fit(in, planned, elsewhere);
    if (!fits(gathered)) gathered.streamed_bytes = device_bytes(as_many_as_fit(in, planned));
    planned.generation = std::move(gathered);
    return;
  }
  Generation streamed = as_many_as_fit(in, planned);
  if (elsewhere.empty() || asked) {
    planned.generation = std::move(streamed);
    return;
  }
  Budget budget = in.budget;
  if (!budget.device) budget.device = std::max(planned.plan.peaks[0].bytes, device_bytes(streamed));
  Generation gathered = as_many_as_fit({in.job, in.machine, budget, in.policy}, planned, elsewhere);
  const bool is_gathered = fits(gathered) && (!fits(streamed) || round_seconds(in, planned, gathered) <
                                                                     round_seconds(in, planned, streamed));
  planned.generation = is_gathered ? std::move(gathered) : std::move(streamed);
}

}  // namespace spillway::train
