#include "job/online/round_forecast.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "base/index.h"

namespace spillway::train {
namespace {

// Returns the bytes that one run moves to the device from other tiers, or between ranks.
double streamed_bytes(const Plan& plan) {
  const auto& lanes = plan.simulation.lanes;
  return std::max(
      {nth(lanes, Lane::kHostToDevice).bytes, nth(lanes, Lane::kDiskRead).bytes, nth(lanes, Lane::kPeer).bytes});
}

int64_t cache_bytes(const JobProgram& decode) {
  int64_t bytes = 0;
  for (const Operand& home : decode.plan.program.homes)
    if (decode.graph.value(home.value).kind == ValueKind::kCache) bytes += home.place.bytes;
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

// Adds a phase for each program of a kind that runs in a round. It has the name of its program if it is given none.
void add_phases(std::span<const JobProgram> programs, JobProgram::Kind kind, Phase::Of of, std::string_view name,
                PlanContext::Generation& result) {
  for (size_t i = 0; i < programs.size(); ++i) {
    const Simulation& simulation = programs[i].plan.simulation;
    const double runs = programs[i].runs_per_round;
    if (programs[i].kind != kind || runs <= 0) continue;
    const double whole = std::floor(runs);
    result.phases.push_back({of, name.empty() ? programs[i].name : std::string(name), static_cast<int64_t>(i),
                             std::ceil(runs),
                             whole * simulation.micro_step_seconds + part_seconds(simulation, runs - whole)});
  }
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

PlanContext::Generation forecast_round(const Job& job, std::span<const JobProgram> programs, const Machine& machine) {
  using Kind = JobProgram::Kind;
  using Of = Phase::Of;
  const config::OnlineSettings& online = *job.config.online;
  PlanContext::Generation result{
      .tokens = online.round_size(job.config.batches.micro_batch_size) * online.completions.max_tokens,
      .micro_batches = static_cast<double>(online.steps_per_generation * online.num_iterations) /
                       static_cast<double>(job.config.ranks.count)};
  double decoded = 0;
  for (const JobProgram& program : programs) {
    if (!program.generates()) continue;
    const double streamed = streamed_bytes(program.plan);
    for (size_t i = 0; i < kBudgetedTiers; ++i)
      result.peak_bytes[i] = std::max(result.peak_bytes[i], program.plan.peaks[i].bytes);
    result.bytes_streamed += static_cast<int64_t>(std::ceil(program.runs_per_round) * streamed);
    if (program.kind != Kind::kDecode) continue;
    result.sequences_at_once = program.graph.tokens();
    result.cache_bytes = cache_bytes(program);
    result.is_streamed = streamed > 0;
    decoded = program.runs_per_round;
  }
  add_phases(programs, Kind::kGather, Of::kGeneration, "weights", result);
  add_phases(programs, Kind::kPrompt, Of::kGeneration, "prompts", result);
  add_phases(programs, Kind::kDecode, Of::kGeneration, "decoding", result);
  const std::optional<infer::ChoosingWork> choosing = choosing_work(job, result.sequences_at_once);
  const double between = choosing ? infer::choosing_seconds(*choosing, machine) : 0;
  result.phases.push_back({Of::kGeneration, "between tokens", -1, decoded, decoded * between});
  for (const Phase& phase : result.phases) result.seconds += phase.seconds;
  // Reward functions outside take time, too, which nothing predicts.
  add_phases(programs, Kind::kReward, Of::kReward, "", result);
  add_phases(programs, Kind::kScoring, Of::kScores, "scores", result);
  return result;
}

}  // namespace spillway::train
