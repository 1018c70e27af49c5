#include "report/metric_curves.h"

#include <algorithm>

namespace spillway {

void MetricCurve::add(int64_t step, double value) {
  if (bins_.empty()) bins_.reserve(kMaxPoints);
  if (bins_.empty() || bins_.back().count == width_) {
    if (bins_.size() == kMaxPoints) {  // two become one
      for (size_t i = 0; i < kMaxPoints / 2; ++i) {
        const Bin &a = bins_[2 * i], &b = bins_[2 * i + 1];
        bins_[i] = {b.step, a.count + b.count, a.sum + b.sum};
      }
      bins_.resize(kMaxPoints / 2);
      width_ *= 2;
    }
    bins_.emplace_back();
  }
  Bin& bin = bins_.back();
  bin = {step, bin.count + 1, bin.sum + value};
}

std::vector<MetricCurve::Point> MetricCurve::points() const {
  std::vector<Point> result;
  for (const Bin& bin : bins_) result.push_back({bin.step, bin.sum / static_cast<double>(bin.count)});
  return result;
}

MetricCurves::Metric& MetricCurves::of(std::string_view name, bool is_share) {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Metric& one) { return one.name == name; });
  if (found != all_.end()) return *found;
  all_.push_back({.name = std::string(name), .is_share = is_share});
  return all_.back();
}

}  // namespace spillway
