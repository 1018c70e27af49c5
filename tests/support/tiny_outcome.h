// The outcome of a tiny job's training, for tests that compare it with another run's to the last bit.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tests/support/tiny_training.h"

namespace spillway::testing {

struct TinyOutcome {
  std::vector<double> losses, norms;                    // by step
  std::vector<double> evaluations;                      // after each: loss and sums of a micro-batch
  std::map<std::string, std::vector<std::byte>> state;  // by the name that a file gives it
  bool operator==(const TinyOutcome&) const = default;
};

// Steps [first, last), each of `accumulation` of the micro-batches.
template <typename MicroBatch>
void train_steps(TinyTraining& training, const std::vector<MicroBatch>& all, int64_t first, int64_t last,
                 size_t accumulation, TinyOutcome& outcome) {
  for (int64_t step = first; step < last; ++step) {
    const auto micro_batches = std::span(all).subspan(static_cast<size_t>(step) * accumulation, accumulation);
    outcome.losses.push_back(training.accumulate(micro_batches, 0.01, step));
    outcome.norms.push_back(training.update());
    outcome.evaluations.push_back(training.session().evaluate(all.front().batch()));
    for (const std::vector<double>& seen : training.session().observed()) outcome.evaluations.push_back(seen.front());
  }
}

// The same with the golden micro-batches.
inline void train_steps(TinyTraining& training, int64_t first, int64_t last, size_t accumulation,
                        TinyOutcome& outcome) {
  static const std::vector<FlatBatch> kMicroBatches = all_micro_batches();
  train_steps(training, kMicroBatches, first, last, accumulation, outcome);
}

// Everything that training changes: weights, masters and moments, whole whatever the slices.
inline void collect_state(const TinyTraining& training, TinyOutcome& outcome) {
  for (const train::TrainedWeight& t : training.trained()) {
    const std::string& name = training.name(t.weight);
    outcome.state[name] = training.bytes(t.weight);
    const auto collect = [&](std::string_view state, const auto& value_of) {
      std::vector<std::byte>& whole = outcome.state[fmt::format("{}.{}", state, name)];
      for (const train::StateSlice& slice : t.slices) {
        if (value_of(slice) == kNone) continue;
        const std::vector<std::byte> part = training.bytes(value_of(slice));
        whole.insert(whole.end(), part.begin(), part.end());
      }
    };
    collect("master", [](const train::StateSlice& slice) { return slice.master; });
    for (size_t i = 0; i < t.slices[0].states.size(); ++i)
      collect(fmt::format("state {}", i), [i](const train::StateSlice& slice) { return slice.states[i]; });
  }
  if (const ValueId step = training.training().step_state; step != kNone)
    outcome.state[training.name(step)] = training.bytes(step);
}

// `steps` from the first on, by one of the two above.
template <typename... Batches>
TinyOutcome outcome_of(TinyTraining& training, int64_t steps, size_t accumulation, const Batches&... batches) {
  TinyOutcome outcome;
  train_steps(training, batches..., 0, steps, accumulation, outcome);
  collect_state(training, outcome);
  return outcome;
}

}  // namespace spillway::testing
