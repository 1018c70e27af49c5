// What a run notes while it goes on, for its report: the loss, what the model answered, how long computation waited,
// and the trace of a typical step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/simulate.h"
#include "report/loss_by_timestep.h"
#include "report/metric_curves.h"
#include "runtime/lane_profile.h"
#include "train/trainer.h"

namespace spillway {

struct LossPoint {
  int64_t step = 0;
  double loss = 0;
};

// At most `points` points: each the mean over a run of steps, at the last of them. REQUIRES: points > 0.
[[nodiscard]] std::vector<LossPoint> thinned(const std::vector<LossPoint>& curve, size_t points);

// The median of numbers that come one by one; of an even number of them, the larger of the two in the middle. A number
// more costs the logarithm of how many there are.
class RunningMedian {
 public:
  // Makes room for so many numbers and touches it, so that adding them allocates nothing.
  void reserve(int64_t count);
  void add(double number);
  // REQUIRES: there is a number.
  [[nodiscard]] double value() const { return upper_.front(); }

 private:
  // Halves, as heaps: the largest of the lower half is in front, and the smallest of the upper one.
  std::vector<double> lower_, upper_;
};

// What the model answered when it was trained so far.
struct SamplePoint {
  int64_t step = 0;
  std::string prompt, text;
  std::optional<double> reward{};       // of a completion that was trained on
  std::vector<std::string> pictures{};  // of a clip: URLs that hold them
};

// What the rounds of online reinforcement learning took.
struct GenerationTotals {
  int64_t rounds = 0, tokens = 0;
  double seconds = 0, reward_seconds = 0;
  int64_t bytes_streamed = 0;  // weights that came to the device for it
  // By program of the job (train::programs_of): what each took for the rounds, and the times of its instructions in one
  // of its runs; none of a program that no round ran, or whose instructions' times nobody knows.
  std::vector<double> program_seconds;
  std::vector<std::vector<LaneTime>> traces;
};

class RunRecord {
 public:
  // Makes room for `steps`, so that noting them allocates nothing; for the first million, where there are more.
  RunRecord(const Program& program, int64_t steps);

  // Around each step, which the profile traces.
  void begin_step(const LaneProfile& lanes) { stall_before_ = lanes.stall_seconds(); }
  void end_step(int64_t step, double loss, double seconds, const LaneProfile& lanes);
  void add_evaluation(int64_t step, double loss) { evaluations_.push_back({step, loss}); }
  // Of a step, after end_step(): what its trainer counts beside the loss.
  void add_step(const train::StepRecord& step);
  // What the run would say if it ended now.
  [[nodiscard]] const train::TrainingOutcome& so_far() const { return so_far_; }
  struct Curves {
    MetricCurve learning_rate, grad_norm, tokens_per_second;
  };
  [[nodiscard]] const Curves& curves() const { return curves_; }

  [[nodiscard]] MetricCurves& metrics() { return metrics_; }
  [[nodiscard]] const MetricCurves& metrics() const { return metrics_; }
  [[nodiscard]] LossByTimestep& loss_by_timestep() { return loss_by_timestep_; }
  [[nodiscard]] const LossByTimestep& loss_by_timestep() const { return loss_by_timestep_; }
  void add_sample(SamplePoint sample) { samples_.push_back(std::move(sample)); }
  // Of all programs, by tier.
  void set_measured_peaks(const std::array<int64_t, kTiers>& bytes) { measured_peaks_ = bytes; }
  [[nodiscard]] const std::array<int64_t, kTiers>& measured_peaks() const { return measured_peaks_; }

  [[nodiscard]] GenerationTotals& generation() { return generation_; }
  [[nodiscard]] const GenerationTotals& generation() const { return generation_; }

  [[nodiscard]] const std::vector<SamplePoint>& samples() const { return samples_; }
  [[nodiscard]] const std::vector<LossPoint>& losses() const { return losses_; }
  [[nodiscard]] const std::vector<LossPoint>& evaluations() const { return evaluations_; }
  // Of training steps alone, without evaluations.
  [[nodiscard]] double stall_seconds() const { return stall_seconds_; }
  // The trace of a step that took about as long as the median; step 0: there is none.
  [[nodiscard]] int64_t traced_step() const { return traced_step_; }
  [[nodiscard]] const std::vector<LaneTime>& trace() const { return trace_; }

 private:
  std::vector<LossPoint> losses_, evaluations_;
  Curves curves_;
  train::TrainingOutcome so_far_;
  MetricCurves metrics_;
  std::vector<SamplePoint> samples_;
  LossByTimestep loss_by_timestep_;  // of a model of clips
  GenerationTotals generation_;
  std::array<int64_t, kTiers> measured_peaks_{};
  RunningMedian step_seconds_;
  double stall_before_ = 0, stall_seconds_ = 0;
  int64_t traced_step_ = 0;
  double traced_seconds_ = 0;
  std::vector<LaneTime> trace_, newest_;  // by instruction
};

}  // namespace spillway
