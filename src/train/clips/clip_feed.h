// The micro-batches of a run over clips. Rows come in an order that depends on seed and epoch; a thread reads them
// ahead of the step.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "data/clips/clip_stream.h"
#include "job/clips/clip_job.h"
#include "job/epoch_size.h"
#include "train/session.h"
#include "train/step_feed.h"

namespace spillway::train {

// A sample that was trained on.
struct SampleSeen {
  int64_t step = 0, micro_step = 0;  // from 1 and from 0
  int64_t row = 0;
  float timestep = 0, sigma = 0;
  bool text_dropped = false;
  double loss = 0;  // of the clip
};

// Returns how many samples are held ahead of the step: those of two micro-batches, and one more.
[[nodiscard]] inline int64_t samples_in_flight(int64_t rows_per_batch) { return 2 * rows_per_batch + 1; }

// The order in which the rows are trained on. It is a pure function of its members, so that a position is enough to go
// on.
struct ClipOrder {
  EpochSize size;  // a line is a row
  data::RowOrder order = data::RowOrder::kShuffled;
  uint64_t seed = 42;

  // Returns the number of the first sample of a step, and below how many samples the step has.
  [[nodiscard]] int64_t first_sample(int64_t step) const { return size.lines_before(step); }
  [[nodiscard]] int64_t samples_of(int64_t step) const { return first_sample(step + 1) - first_sample(step); }
};
[[nodiscard]] ClipOrder clip_order(const config::Config& config, const ClipSet& set);

// The part of a job over several ranks, or groups of ranks that share clips, that a feed is for.
struct RankPart {
  int rank = 0, size = 1;
};

// Returns the turns of the steps `first` to `last` - 1, counted from 0, that a rank trains on: those of micro-batches
// rank, rank + size, ... of each step.
[[nodiscard]] data::ClipTurns training_turns(const ClipOrder& order, const ClipSet& set, int64_t first, int64_t last,
                                             RankPart part = {});

class ClipFeed final : public StepFeed {
 public:
  // Feeds the micro-batches of a rank in the steps `first_step` to `total_steps` - 1, counted from 0. Borrows
  // everything but the set's rows. Calls `on_sample`, if there is one, for each sample that any rank has trained on.
  ClipFeed(const ClipJob& job, const ClipSet& set, const ClipOrder& order, int64_t first_step, int64_t total_steps,
           RankPart part, std::function<void(const SampleSeen&)> on_sample);

  void begin(int64_t step) override;
  [[nodiscard]] StepTotals totals() const override;
  // For a micro-batch that is not the next one of the part, which stands in for one that does not count, returns one
  // of any clip.
  [[nodiscard]] std::span<const data::MicroBatch> micro_batch(int64_t index) override;
  [[nodiscard]] std::vector<double> observe(const Observation& seen) override;
  void add_observed(std::span<const double> numbers) override;

 private:
  [[nodiscard]] data::ClipSample any_sample() const;
  void add(const data::ClipSample& sample, int64_t index);

  const ClipJob& job_;
  const ClipSet& set_;
  ClipOrder order_;
  RankPart part_;
  data::ClipStream stream_;
  std::function<void(const SampleSeen&)> on_sample_;
  data::MicroBatch batch_;
  std::deque<SampleSeen> samples_;  // of the micro-batches that were fetched and not observed yet
  int64_t step_ = 0;
  int64_t next_ = 0;  // micro-batch of the step that is of this part
};

struct EvaluationTurns;

// The micro-batches of an evaluation, in order: each row once, or once for each of the evaluation's timesteps. Noise is
// fixed by seed and row.
class ClipEvaluation final : public EvaluationFeed {
 public:
  ClipEvaluation(const ClipJob& job, const ClipSet& set, int64_t rows_per_batch);

  [[nodiscard]] std::span<const data::MicroBatch> next() override;
  void observe(int64_t number, const Observation& seen, MetricSums& sums) override;

 private:
  ClipEvaluation(const ClipJob& job, const ClipSet& set, int64_t rows_per_batch, EvaluationTurns turns);

  const ClipJob& job_;
  int64_t rows_per_batch_;
  std::vector<std::string_view> keys_;  // of all samples in order
  data::ClipStream stream_;
  data::MicroBatch batch_;
};

}  // namespace spillway::train
