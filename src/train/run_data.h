// What a run is trained on, of whatever kind: rows of tokens that are all there, a stream of them, prompts that the
// model answers, or clips.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "job/training_data.h"
#include "saved/checkpoint.h"
#include "train/clips/clip_feed.h"
#include "train/clips/clip_sampler.h"
#include "train/online/rollout_feed.h"
#include "train/session.h"
#include "train/step_feed.h"

namespace spillway::train {

// Where the completions of a job that generates come from.
using MakeRounds = std::function<std::unique_ptr<RoundSource>(TrainingSession& session, int64_t total_steps)>;

// What a model of clips makes of a few texts, and once what it should make.
struct ClipsRecord {
  int64_t step = 0;
  bool are_originals = false;
  std::vector<SampledClip> clips;
};

// Whom to tell what. Absent functions are not called.
struct DataListeners {
  std::function<void(int64_t rows, int64_t of)> packing;  // as an epoch's rows are packed
  std::function<void(const RoundRecord&)> round;
  std::function<void(const SampleSeen&)> sample;
  std::function<void(const ClipsRecord&)> clips;
};

class RunData {
 public:
  virtual ~RunData() = default;
  // Throws InputError where there is nothing to train on.
  virtual void check() const {}
  [[nodiscard]] virtual TrainingLength length() const = 0;
  // Fills in what says whether a checkpoint belongs to these data. `steps_per_epoch` as length() has it.
  virtual void identify(int64_t steps_per_epoch, TrainingPosition& position) const = 0;
  // From the step of `position` on.
  [[nodiscard]] virtual std::unique_ptr<StepFeed> make_feed(TrainingSession& session, const TrainingLength& length,
                                                            const TrainingPosition& position) const = 0;
  // Shows what the weights make of something, as its listener wants to see; before the first step, too.
  virtual void sample(TrainingSession& session, int64_t step) const {
    (void)session;
    (void)step;
  }
  // Whether there is anything to evaluate.
  [[nodiscard]] virtual bool has_evaluation() const = 0;
  // Null where StepFeed::evaluate() does it. REQUIRES: has_evaluation().
  [[nodiscard]] virtual std::unique_ptr<EvaluationFeed> make_evaluation(const TrainingSession& session) const = 0;
};

// All is borrowed.
[[nodiscard]] std::unique_ptr<RunData> make_run_data(const Job& job, const TrainingData& data, DataListeners listeners,
                                                     MakeRounds make_rounds);

}  // namespace spillway::train
