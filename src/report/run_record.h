// What a run notes while it goes on, for its report: the loss, and how long computation waited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

struct LossPoint {
  int64_t step = 0;
  double loss = 0;
};

// At most `points` points: each the mean over a run of steps, at the last of them. REQUIRES: points > 0.
[[nodiscard]] std::vector<LossPoint> thinned(const std::vector<LossPoint>& curve, size_t points);

class RunRecord {
 public:
  // Makes room for `steps`, so that noting them allocates nothing.
  explicit RunRecord(int64_t steps = 0) { losses_.reserve(static_cast<size_t>(steps > 0 ? steps : 0)); }

  // Before and after each step; `stall_seconds` is what the executor has counted so far.
  void begin_step(double stall_seconds) { stall_before_ = stall_seconds; }
  void end_step(int64_t step, double loss, double stall_seconds) {
    losses_.push_back({step, loss});
    stall_seconds_ += stall_seconds - stall_before_;
  }
  void add_evaluation(int64_t step, double loss) { evaluations_.push_back({step, loss}); }

  [[nodiscard]] const std::vector<LossPoint>& losses() const { return losses_; }
  [[nodiscard]] const std::vector<LossPoint>& evaluations() const { return evaluations_; }
  // Of training steps alone, without evaluations.
  [[nodiscard]] double stall_seconds() const { return stall_seconds_; }

 private:
  std::vector<LossPoint> losses_, evaluations_;
  double stall_before_ = 0, stall_seconds_ = 0;
};

}  // namespace spillway
