// The data of a run: its length, its feeds and its evaluation. Each kind of run (job/run_kind.h) has an implementation,
// in train/rows/, train/clips/ or train/online/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "job/training_data.h"
#include "saved/checkpoint.h"
#include "train/clips/clip_feed.h"
#include "train/clips/clip_sampler.h"
#include "train/online/round_record.h"
#include "train/ranks.h"
#include "train/session.h"
#include "train/step_feed.h"

namespace spillway::train {

// Creates the source of the completions of a job that generates them.
using MakeRounds = std::function<std::unique_ptr<RoundSource>(TrainingSession& session, int64_t total_steps)>;

// Clips that the model generates for a few texts; and once, before them, the originals.
struct ClipsRecord {
  int64_t step = 0;
  bool are_originals = false;
  std::vector<SampledClip> clips;
};

// Callbacks for progress and results. Empty functions are not called.
struct DataListeners {
  std::function<void(int64_t rows, int64_t of)> packing;  // as an epoch's rows are packed
  std::function<void(const RoundRecord&)> round;
  std::function<void(const SampleSeen&)> sample;
  std::function<void(const ClipsRecord&)> clips;
};

class RunData {
 public:
  virtual ~RunData() = default;
  // Throws InputError if there is nothing to train on.
  virtual void check() const {}
  [[nodiscard]] virtual TrainingLength length() const = 0;
  // Fills in the fields by which a checkpoint is recognised as one of these data. `steps_per_epoch` is that of
  // length().
  virtual void identify(int64_t steps_per_epoch, TrainingPosition& position) const = 0;
  // Returns true if the length counts rows, so that a run may go on from a checkpoint with batches of another size.
  [[nodiscard]] virtual bool counts_rows() const { return true; }
  // Returns the feed for the steps after `position`. Borrows session and ranks.
  [[nodiscard]] virtual std::unique_ptr<StepFeed> make_feed(TrainingSession& session, const TrainingLength& length,
                                                            const TrainingPosition& position, Ranks& ranks) const = 0;
  // Generates samples with the current weights for the listener; also called before the first step.
  virtual void sample(TrainingSession& session, int64_t step) const {
    (void)session;
    (void)step;
  }
  // Returns true if there is anything to evaluate.
  [[nodiscard]] virtual bool has_evaluation() const = 0;
  // Returns the micro-batches of an evaluation; null if StepFeed::evaluate() evaluates. REQUIRES: has_evaluation().
  [[nodiscard]] virtual std::unique_ptr<EvaluationFeed> make_evaluation(const TrainingSession& session) const = 0;
};

// Creates the data of a job. Borrows its arguments.
[[nodiscard]] std::unique_ptr<RunData> make_run_data(const Job& job, const TrainingData& data, DataListeners listeners,
                                                     MakeRounds make_rounds);

}  // namespace spillway::train
