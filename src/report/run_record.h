// The record of a run for its report: the loss, the model's answers, how long computation waited, and the trace of a
// typical step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/simulate.h"
#include "report/expert_loads.h"
#include "report/loss_by_timestep.h"
#include "report/metric_curves.h"
#include "report/operation_time.h"
#include "runtime/lane_profile.h"
#include "train/trainer.h"

namespace spillway {

struct LossPoint {
  int64_t step = 0;
  double loss = 0;
};

// Returns at most `points` points: each is the mean over a range of steps, placed at the last of them. REQUIRES: points
// > 0.
[[nodiscard]] std::vector<LossPoint> thinned(const std::vector<LossPoint>& curve, size_t points);

// The median of numbers that arrive one by one; of an even number of them, the larger of the two in the middle. Adding
// a number takes logarithmic time.
class RunningMedian {
 public:
  // Reserves and touches memory for `count` numbers, so that adding them allocates nothing.
  void reserve(int64_t count);
  void add(double number);
  // REQUIRES: a number was added.
  [[nodiscard]] double value() const { return upper_.front(); }

 private:
  // The two halves as heaps, with the largest of the lower half and the smallest of the upper one in front.
  std::vector<double> lower_, upper_;
};

// An answer of the model at a step of the training.
struct SamplePoint {
  int64_t step = 0;
  std::string prompt, text;
  std::optional<double> reward{};       // of a completion that was trained on
  std::vector<std::string> pictures{};  // of a clip: URLs that hold them
};

// The time and traffic of the rounds of online reinforcement learning.
struct GenerationTotals {
  int64_t rounds = 0, tokens = 0;
  double seconds = 0, reward_seconds = 0;
  int64_t bytes_streamed = 0;  // weights that came to the device for it
  // By program beside training (train::PlannedJob::beside): its time in the rounds, and the times of its instructions
  // in one of its runs; none for a program that did not run, or whose instructions' times are unknown.
  std::vector<double> program_seconds;
  std::vector<std::vector<LaneTime>> traces;
};

class RunRecord {
 public:
  // Reserves memory for `steps`, at most for a million, so that noting them allocates nothing.
  RunRecord(const Program& program, int64_t steps);

  // Call them around a change of the program of training, between steps. The trace is that of a step of the last one.
  void end_program(const Graph& graph, const Program& program, const Executor& executor) {
    operations_before_ = time_by_operation(graph, program, executor, operations_before_);
    expert_loads_before_ = expert_loads(graph, program, executor, expert_loads_before_).value_or(ExpertLoads{});
  }
  void begin_program(const Program& program);
  // The times of operations in the programs that have ended.
  [[nodiscard]] const std::vector<OperationTime>& operations_before() const { return operations_before_; }
  // The loads of experts in these programs.
  [[nodiscard]] const ExpertLoads& expert_loads_before() const { return expert_loads_before_; }
  // The experts that the tokens of each micro-batch have reached, over all layers and micro-batches so far; nullopt
  // before a step has counted them.
  [[nodiscard]] std::optional<int64_t> experts_reached() const { return experts_reached_; }
  // The layers that are trained from a step on.
  void add_draw(const train::LayerDraw& draw) { draws_.push_back(draw); }
  [[nodiscard]] const std::vector<train::LayerDraw>& draws() const { return draws_; }

  // Call them before and after each step, which the profile traces.
  void begin_step(const LaneProfile& lanes) { stall_before_ = lanes.stall_seconds(); }
  void end_step(int64_t step, double loss, double seconds, const LaneProfile& lanes);
  void add_evaluation(int64_t step, double loss) { evaluations_.push_back({step, loss}); }
  // Adds what the trainer counts in a step beside the loss. Call it after end_step().
  void add_step(const train::StepRecord& step);
  // The outcome of the run if it ended now.
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
  // The measured peaks of all programs, by tier.
  void set_measured_peaks(const std::array<int64_t, kTiers>& bytes) { measured_peaks_ = bytes; }
  [[nodiscard]] const std::array<int64_t, kTiers>& measured_peaks() const { return measured_peaks_; }

  [[nodiscard]] GenerationTotals& generation() { return generation_; }
  [[nodiscard]] const GenerationTotals& generation() const { return generation_; }

  [[nodiscard]] const std::vector<SamplePoint>& samples() const { return samples_; }
  [[nodiscard]] const std::vector<LossPoint>& losses() const { return losses_; }
  [[nodiscard]] const std::vector<LossPoint>& evaluations() const { return evaluations_; }
  // The time that computation waited in training steps, without evaluations.
  [[nodiscard]] double stall_seconds() const { return stall_seconds_; }
  // The trace of a step whose time was near the median; step 0 means that there is none.
  [[nodiscard]] int64_t traced_step() const { return traced_step_; }
  [[nodiscard]] const std::vector<LaneTime>& trace() const { return trace_; }

 private:
  std::vector<LossPoint> losses_, evaluations_;
  Curves curves_;
  train::TrainingOutcome so_far_;
  MetricCurves metrics_;
  std::vector<OperationTime> operations_before_;
  ExpertLoads expert_loads_before_;
  std::optional<int64_t> experts_reached_;
  std::vector<train::LayerDraw> draws_;
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
