#include "report/run_record.h"

#include <algorithm>
#include <cmath>

#include "report/timeline.h"

namespace spillway {

std::vector<LossPoint> thinned(const std::vector<LossPoint>& curve, size_t points) {
  std::vector<LossPoint> result;
  const size_t bins = std::min(points, curve.size());
  for (size_t bin = 0; bin < bins; ++bin) {
    const size_t begin = curve.size() * bin / bins, end = curve.size() * (bin + 1) / bins;
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += curve[i].loss;
    result.push_back({curve[end - 1].step, sum / static_cast<double>(end - begin)});
  }
  return result;
}

RunRecord::RunRecord(const Program& program, int64_t steps)
    : trace_(program.instructions.size()), newest_(program.instructions.size()) {
  // Touched now, not only reserved, so that a long run does not grow page by page; no more than a few days need.
  constexpr int64_t kMostTouched = int64_t{1} << 20;
  losses_.resize(static_cast<size_t>(std::clamp<int64_t>(steps, 0, kMostTouched)));
  losses_.clear();
  seconds_.resize(losses_.capacity());
  seconds_.clear();
}

void RunRecord::end_step(int64_t step, double loss, double seconds, const LaneProfile& lanes) {
  losses_.push_back({step, loss});
  stall_seconds_ += lanes.stall_seconds() - stall_before_;
  seconds_.insert(std::upper_bound(seconds_.begin(), seconds_.end(), seconds), seconds);
  const double median = seconds_[seconds_.size() / 2];
  const bool is_nearer = std::abs(seconds - median) <= std::abs(traced_seconds_ - median);
  if (traced_step_ != 0 && !is_nearer) return;
  if (!read_trace(lanes, newest_)) return;
  std::swap(trace_, newest_);
  traced_step_ = step;
  traced_seconds_ = seconds;
}

}  // namespace spillway
