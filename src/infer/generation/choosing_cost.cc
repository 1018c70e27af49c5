#include "infer/generation/choosing_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/index.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/sizes.h"
#include "runtime/cpu_share.h"

namespace spillway::infer {
namespace {

// Returns the signature under which the time is kept among those of operations (plan/signature.h).
std::string signature_of(const ChoosingWork& work) {
  const Sampling& s = work.sampling;
  std::string text = fmt::format("choose_token(f32[{}, {}])", work.sequences, work.vocabulary);
  text += s.temperature == 0 ? " greedy" : s.draws_from_all() ? " all" : fmt::format(" top_k {}", s.top_k);
  if (work.logprob_temperature)
    text += *work.logprob_temperature == s.temperature ? " logprob" : " logprob at another temperature";
  return text;
}

// Logits in a range that models have.
std::vector<float> typical_logits(int64_t count) {
  auto logits = make_vector<float>(count);
  RandomStream random(1, 0);
  for (float& logit : logits) logit = static_cast<float>(16 * random.uniform() - 8);
  return logits;
}

double seconds_of(const ChoosingWork& work, const std::vector<float>& logits, ThreadPool& pool) {
  auto choices = make_vector<Choice>(work.sequences);
  const double begin = now_seconds();
  pool.parallel_for(work.sequences, 1, [&](int64_t first, int64_t last, int) {
    for (int64_t i = first; i < last; ++i) {
      const auto row = subspan_of(logits, i * work.vocabulary, work.vocabulary);
      nth(choices, i) = choose_token(row, row, work.sampling, work.logprob_temperature, 0.5);
    }
  });
  return now_seconds() - begin;
}

}  // namespace

bool measure_choosing(const ChoosingWork& work, Machine& machine) {
  ThreadPool pool(machine.threads);
  CpuShare share(pool);
  const std::string signature = signature_of(work);
  if (const auto known = machine.operations.find(signature); known != machine.operations.end()) {
    if (!known->second.is_provisional()) return false;
    share.complete();
    if (!is_worth_measuring_again(known->second.cpu_share, share.value())) return false;
  }
  const std::vector<float> logits = typical_logits(work.sequences * work.vocabulary);
  std::array<double, 5> seconds;
  for (double& one : seconds) {
    one = seconds_of(work, logits, pool);
    share.sample_at_intervals();
  }
  share.complete();
  std::sort(seconds.begin(), seconds.end());
  // The lower quartile, as for operations.
  machine.operations[signature] = {.compute = seconds[1], .cpu_share = share.value()};
  return true;
}

double choosing_seconds(const ChoosingWork& work, const Machine& machine) {
  const auto known = machine.operations.find(signature_of(work));
  if (known != machine.operations.end()) return known->second.compute;
  const double bytes = static_cast<double>(work.sequences * work.vocabulary) * sizeof(float);
  return bytes / (machine.host_bytes_per_second > 0 ? machine.host_bytes_per_second : machine.memory_bytes_per_second);
}

}  // namespace spillway::infer
