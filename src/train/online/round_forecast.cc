#include "train/online/round_forecast.h"

#include <algorithm>

#include "base/index.h"
#include "base/math.h"

namespace spillway::train {
namespace {

// Of one run: what comes to the device from elsewhere.
double streamed_bytes(const Plan& plan) {
  const auto& lanes = plan.simulation.lanes;
  const double from_host = nth(lanes, Lane::kHostToDevice).bytes;
  return std::max(from_host, nth(lanes, Lane::kDiskRead).bytes);
}

int64_t cache_bytes(const PlannedJob::Generation& generation) {
  int64_t bytes = 0;
  for (const Operand& home : generation.decode.program.homes) {
    const Value& value = generation.graphs.decode.graph.value(home.value);
    if (value.kind == ValueKind::kCache && !is_gathered(value)) bytes += home.place.bytes;
  }
  return bytes;
}

}  // namespace

PlanContext::Generation forecast_round(const Job& job, const PlannedJob& planned) {
  const PlannedJob::Generation& generation = *planned.generation;
  const config::OnlineSettings& online = *job.config.online;
  const int64_t completions = online.round_size(job.config.batches.micro_batch_size);
  const int64_t prompt = job.online->sequence_len - online.completions.max_tokens;
  PlanContext::Generation result{.sequences_at_once = generation.graphs.decode.graph.tokens(),
                                 .cache_bytes = cache_bytes(generation),
                                 .tokens = completions * online.completions.max_tokens};
  for (size_t i = 0; i < kBudgetedTiers; ++i)
    result.peak_bytes[i] = std::max(generation.decode.peaks[i].bytes, generation.prompt.peaks[i].bytes);
  // A prompt is read once for its completions.
  const int64_t read = completions / online.num_generations * prompt;
  const auto prompt_runs = static_cast<double>(div_ceil(read, generation.graphs.prompt.graph.tokens()));
  const auto decode_runs =
      static_cast<double>(div_ceil(completions, result.sequences_at_once) * online.completions.max_tokens);
  result.seconds = prompt_runs * generation.prompt.simulation.micro_step_seconds +
                   decode_runs * generation.decode.simulation.micro_step_seconds;
  result.bytes_streamed = static_cast<int64_t>(prompt_runs * streamed_bytes(generation.prompt) +
                                               decode_runs * streamed_bytes(generation.decode));
  result.is_streamed = streamed_bytes(generation.decode) > 0;
  if (generation.gather) {
    result.seconds += generation.gather->simulation.micro_step_seconds;
    result.bytes_streamed += static_cast<int64_t>(streamed_bytes(*generation.gather));
    for (size_t i = 0; i < kBudgetedTiers; ++i)
      result.peak_bytes[i] = std::max(result.peak_bytes[i], generation.gather->peaks[i].bytes);
  }
  return result;
}

}  // namespace spillway::train
