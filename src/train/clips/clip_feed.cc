#include "train/clips/clip_feed.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "data/clips/clip_batch.h"
#include "data/clips/clip_draws.h"
#include "data/clips/clip_sample.h"

namespace spillway::train {

struct EvaluationTurns {
  std::vector<data::ClipTurn> turns;
  std::vector<std::string_view> keys;  // of the loss at each turn's timestep; empty for a row that is looked at once
};

namespace {

// The numbers of validation samples, disjoint from those of training.
constexpr int64_t kValidationSamples = int64_t{1} << 47;

// Yields each row for each timestep of the evaluation; once if there are none, or if the row has its own timestep.
EvaluationTurns evaluation_turns(const ClipJob& job, const ClipSet& set) {
  EvaluationTurns result;
  for (const int64_t row : set.chosen) {
    const data::ClipTurn turn{.row = row, .sample = kValidationSamples + row};
    if (job.evaluation_points.empty() || set.rows->header(row).has_timestep) {
      result.turns.push_back(turn);
      result.keys.emplace_back();
      continue;
    }
    for (const ClipJob::EvaluationPoint& point : job.evaluation_points) {
      result.turns.push_back({turn.row, turn.sample, point.timestep});
      result.keys.emplace_back(point.key);
    }
  }
  return result;
}

// An evaluation drops no texts, so that its loss does not depend on training_cfg_rate.
data::FlowOptions with_all_texts(data::FlowOptions flow) {
  flow.training_cfg_rate = 0;
  return flow;
}

// The numbers of the samples that a rank trains on, in order.
class SampleNumbers {
 public:
  SampleNumbers(const ClipOrder& order, int64_t first_step, int64_t last_step, RankPart part)
      : order_(order), step_(first_step), last_step_(last_step), part_(part), next_batch_(part.rank) {}

  [[nodiscard]] std::optional<int64_t> next() {
    while (at_ == end_) {
      if (step_ == last_step_) return {};
      next_batch();
    }
    return at_++;
  }

 private:
  // Goes to the rank's next micro-batch; at the end of a step, to the next step instead.
  void next_batch() {
    const int64_t samples = order_.samples_of(step_), batches = div_ceil(samples, order_.size.batch_lines);
    if (next_batch_ >= batches) {
      ++step_;
      next_batch_ = part_.rank;
      return;
    }
    const int64_t own = next_batch_ * order_.size.batch_lines;
    at_ = order_.first_sample(step_) + own;
    end_ = at_ + std::min(order_.size.batch_lines, samples - own);
    next_batch_ += part_.size;
  }

  ClipOrder order_;
  int64_t step_, last_step_;
  RankPart part_;
  int64_t next_batch_;        // of the rank
  int64_t at_ = 0, end_ = 0;  // of the present micro-batch
};

data::ClipTurns in_order(std::vector<data::ClipTurn> turns) {
  return [turns = std::move(turns), at = size_t{0}]() mutable {
    return at < turns.size() ? std::optional(turns[at++]) : std::nullopt;
  };
}

}  // namespace

ClipOrder clip_order(const config::Config& config, const ClipSet& set) {
  const data::BatchOptions& options = config.data.batches;
  return {.size = {.lines = set.size(), .step_batches = options.step_batches, .batch_lines = options.rows},
          .order = options.order,
          .seed = options.seed};
}

data::ClipTurns training_turns(const ClipOrder& order, const ClipSet& set, int64_t first, int64_t last, RankPart part) {
  return [turns = SampleNumbers(order, first, last, part), order, &set, epoch = int64_t{-1},
          rows = std::vector<int64_t>()]() mutable -> std::optional<data::ClipTurn> {
    const std::optional<int64_t> sample = turns.next();
    if (!sample) return {};
    if (const int64_t now = *sample / order.size.lines; now != epoch) {
      epoch = now;
      rows = data::order_of_epoch(order.size.lines, order.order, order.seed, epoch);
    }
    const int64_t index = nth(rows, *sample % order.size.lines);
    return data::ClipTurn{.row = nth(set.chosen, index), .sample = *sample};
  };
}

ClipFeed::ClipFeed(const ClipJob& job, const ClipSet& set, const ClipOrder& order, int64_t first_step,
                   int64_t total_steps, RankPart part, std::function<void(const SampleSeen&)> on_sample)
    : job_(job),
      set_(set),
      order_(order),
      part_(part),
      stream_(set.rows, job.flow, training_turns(order, set, first_step, total_steps, part),
              samples_in_flight(order.size.batch_lines)),
      on_sample_(std::move(on_sample)) {}

void ClipFeed::begin(int64_t step) {
  step_ = step;
  next_ = part_.rank;
}

StepTotals ClipFeed::totals() const {
  const int64_t samples = order_.samples_of(step_);
  return {.micro_batches = div_ceil(samples, order_.size.batch_lines), .targets = samples};
}

std::span<const data::MicroBatch> ClipFeed::micro_batch(int64_t index) {
  batch_.clear();
  if (index != next_) {
    add(any_sample(), index);
    return std::span(&batch_, 1);
  }
  next_ += part_.size;
  const int64_t left = order_.samples_of(step_) - index * order_.size.batch_lines;
  for (int64_t i = 0; i < std::min(left, order_.size.batch_lines); ++i) {
    const std::optional<data::ClipSample> sample = stream_.next();
    SPILLWAY_CHECK(sample.has_value(), "no sample for step {}", step_);
    add(*sample, index);
  }
  return std::span(&batch_, 1);
}

data::ClipSample ClipFeed::any_sample() const {
  const int64_t row = set_.chosen.front();
  return data::prepare_sample(set_.rows->read(row), row, job_.flow, data::make_flow_table(job_.flow.flow_shift), 0);
}

void ClipFeed::add(const data::ClipSample& sample, int64_t index) {
  data::add_to_micro_batch(batch_, sample, job_.demands);
  samples_.push_back({step_ + 1, index, sample.row, sample.timestep, sample.sigma, sample.text_dropped});
}

std::vector<double> ClipFeed::observe(const Observation& seen) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < seen.rows; ++i) {
    const SampleSeen& one = samples_.front();
    const double sigma = job_.preconditions ? static_cast<double>(one.sigma) : 1;
    const double loss = nth(seen.values[0], i) * sigma * sigma;
    numbers.insert(numbers.end(), {static_cast<double>(one.micro_step), static_cast<double>(one.row),
                                   static_cast<double>(one.timestep), static_cast<double>(one.sigma),
                                   one.text_dropped ? 1.0 : 0.0, loss});
    samples_.pop_front();
  }
  return numbers;
}

void ClipFeed::add_observed(std::span<const double> numbers) {
  constexpr size_t kNumbers = 6;  // of a sample
  if (!on_sample_) return;
  for (; numbers.size() >= kNumbers; numbers = numbers.subspan(kNumbers))
    on_sample_({.step = step_ + 1,
                .micro_step = static_cast<int64_t>(numbers[0]),
                .row = static_cast<int64_t>(numbers[1]),
                .timestep = static_cast<float>(numbers[2]),
                .sigma = static_cast<float>(numbers[3]),
                .text_dropped = numbers[4] != 0,
                .loss = numbers[5]});
}

ClipEvaluation::ClipEvaluation(const ClipJob& job, const ClipSet& set, int64_t rows_per_batch)
    : ClipEvaluation(job, set, rows_per_batch, evaluation_turns(job, set)) {}

ClipEvaluation::ClipEvaluation(const ClipJob& job, const ClipSet& set, int64_t rows_per_batch, EvaluationTurns turns)
    : job_(job),
      rows_per_batch_(rows_per_batch),
      keys_(std::move(turns.keys)),
      stream_(set.rows, with_all_texts(job.flow), in_order(std::move(turns.turns)), samples_in_flight(rows_per_batch)) {
}

std::span<const data::MicroBatch> ClipEvaluation::next() {
  batch_.clear();
  for (int64_t i = 0; i < rows_per_batch_; ++i) {
    const std::optional<data::ClipSample> sample = stream_.next();
    if (!sample) break;
    data::add_to_micro_batch(batch_, *sample, job_.demands);
  }
  return std::span(&batch_, batch_.rows > 0 ? 1 : 0);
}

void ClipEvaluation::observe(int64_t number, const Observation& seen, MetricSums& sums) {
  for (int64_t i = 0; i < seen.rows; ++i) {
    const std::string_view key = nth(keys_, number * rows_per_batch_ + i);
    const double sigma = job_.preconditions ? seen.column(data::kSigma, i) : 1;
    if (!key.empty()) sums.add(key, nth(seen.values[0], i) * sigma * sigma);
  }
}

}  // namespace spillway::train
