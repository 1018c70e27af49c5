#include "job/online/round_forecast.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/index.h"
#include "base/math.h"

namespace spillway::train {
namespace {

// Returns the bytes that one run moves to the device from other tiers.
double streamed_bytes(const Plan& plan) {
  const auto& lanes = plan.simulation.lanes;
  const double from_host = nth(lanes, Lane::kHostToDevice).bytes;
  return std::max(from_host, nth(lanes, Lane::kDiskRead).bytes);
}

int64_t cache_bytes(const PlannedJob::Generation& generation) {
  int64_t bytes = 0;
  for (const Operand& home : generation.decode.program.homes) {
    const Value& value = generation.graphs.decode.graph.value(home.value);
    if (value.kind == ValueKind::kCache) bytes += home.place.bytes;
  }
  return bytes;
}

using Phase = PlanContext::Generation::Phase;

// Returns the time of a run with a share of the tokens that its program has room for: computing takes that share of its
// full time, moving data takes all of it.
double part_seconds(const Simulation& simulation, double share) {
  if (share == 0) return 0;
  double streaming = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (static_cast<Lane>(lane) != Lane::kCompute) streaming = std::max(streaming, simulation.lanes[lane].busy_seconds);
  }
  return std::max(streaming, share * simulation.micro_step_seconds);
}

// The phases of a round, by the programs that run them.
class RoundPhases {
 public:
  RoundPhases(const PlannedJob& planned, PlanContext::Generation& result)
      : programs_(programs_of(planned)), result_(result) {}

  // `work` is the number of runs of the program; its fraction is a last run with a part of the tokens.
  void add(Phase::Of of, std::string name, const Plan& plan, double work) {
    const auto at = std::find_if(programs_.begin(), programs_.end(),
                                 [&](const JobProgram& program) { return program.plan == &plan; });
    if (work <= 0) return;
    const double whole = std::floor(work);
    const double seconds = whole * plan.simulation.micro_step_seconds + part_seconds(plan.simulation, work - whole);
    result_.phases.push_back({of, std::move(name), at - programs_.begin(), std::ceil(work), seconds});
  }

 private:
  std::vector<JobProgram> programs_;
  PlanContext::Generation& result_;
};

// The number of runs of each generation program in a round, counted in runs with all the tokens that it has room for.
struct GenerationRuns {
  double prompt = 0, decode = 0;
};

void add_generation(const Job& job, const PlannedJob& planned, const Machine& machine, const GenerationRuns& runs,
                    PlanContext::Generation& result) {
  const PlannedJob::Generation& generation = *planned.generation;
  RoundPhases phases(planned, result);
  constexpr auto kOf = Phase::Of::kGeneration;
  if (generation.gather) phases.add(kOf, "weights", *generation.gather, 1);
  phases.add(kOf, "prompts", generation.prompt, runs.prompt);
  phases.add(kOf, "decoding", generation.decode, runs.decode);
  const std::optional<infer::ChoosingWork> choosing = choosing_work(job, result.sequences_at_once);
  const double between = choosing ? infer::choosing_seconds(*choosing, machine) : 0;
  result.phases.push_back({kOf, "between tokens", -1, runs.decode, runs.decode * between});
  for (const Phase& phase : result.phases) result.seconds += phase.seconds;
}

// Adds the phases that score completions before they are trained on, except for external reward functions.
void add_scores(const Job& job, const PlannedJob& planned, double completions, PlanContext::Generation& result) {
  RoundPhases phases(planned, result);
  for (size_t i = 0; i < planned.rewards.size(); ++i) {
    const double tokens = completions * static_cast<double>(job.online->sequence_len);
    phases.add(Phase::Of::kReward, planned.rewards[i].name, planned.rewards[i].plan,
               tokens / static_cast<double>(job.online->reward_models[i].room.tokens));
  }
  if (planned.scoring)
    phases.add(Phase::Of::kScores, "scores", planned.scoring->plan,
               static_cast<double>(job.config.online->steps_per_generation));
}

}  // namespace

std::optional<infer::ChoosingWork> choosing_work(const Job& job, int64_t sequences) {
  const config::CompletionSettings& settings = job.config.online->completions;
  const infer::Sampling sampling = {
      .temperature = settings.temperature, .top_p = settings.top_p, .top_k = settings.top_k, .min_p = settings.min_p};
  if (sampling.is_of_program() && settings.repetition_penalty == 1) return {};
  return infer::ChoosingWork{.sequences = sequences,
                             .vocabulary = job.model->text()->vocab_size,
                             .sampling = sampling,
                             .logprob_temperature = settings.temperature};
}

PlanContext::Generation forecast_round(const Job& job, const PlannedJob& planned, const Machine& machine) {
  const PlannedJob::Generation& generation = *planned.generation;
  const config::OnlineSettings& online = *job.config.online;
  const int64_t completions = online.round_size(job.config.batches.micro_batch_size);
  const int64_t prompt = job.online->sequence_len - online.completions.max_tokens;
  PlanContext::Generation result{.sequences_at_once = generation.graphs.decode.graph.tokens(),
                                 .cache_bytes = cache_bytes(generation),
                                 .tokens = completions * online.completions.max_tokens};
  for (const Plan* plan : {&generation.decode, &generation.prompt, generation.gather ? &*generation.gather : nullptr}) {
    if (plan == nullptr) continue;
    for (size_t i = 0; i < kBudgetedTiers; ++i)
      result.peak_bytes[i] = std::max(result.peak_bytes[i], plan->peaks[i].bytes);
  }
  // A prompt is read once for all its completions, except for its last token, which is the first that is decoded.
  const int64_t read = completions / online.num_generations * (prompt - 1);
  const GenerationRuns runs = {
      .prompt = static_cast<double>(read) / static_cast<double>(generation.graphs.prompt.graph.tokens()),
      .decode = static_cast<double>(div_ceil(completions, result.sequences_at_once) * online.completions.max_tokens)};
  add_generation(job, planned, machine, runs, result);
  add_scores(job, planned, static_cast<double>(completions), result);
  result.bytes_streamed = static_cast<int64_t>(std::ceil(runs.prompt) * streamed_bytes(generation.prompt) +
                                               runs.decode * streamed_bytes(generation.decode));
  if (generation.gather) result.bytes_streamed += static_cast<int64_t>(streamed_bytes(*generation.gather));
  result.is_streamed = streamed_bytes(generation.decode) > 0;
  result.micro_batches = static_cast<double>(online.steps_per_generation * online.num_iterations);
  return result;
}

}  // namespace spillway::train
