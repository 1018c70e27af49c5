#include "objectives/metrics.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/index.h"

namespace spillway::train {

std::vector<KeptMetric> kept(std::span<const Metric> metrics) {
  std::vector<KeptMetric> result;
  for (const Metric& one : metrics) result.push_back({std::string(one.key), one.value, one.is_share});
  return result;
}

void MetricSums::add(const Metric& mean, double weight) {
  if (weight == 0) return;
  if (entries_ != nullptr) entries_->push_back({mean, weight});
  auto found = std::find_if(sums_.begin(), sums_.end(), [&](const Sum& one) { return one.key == mean.key; });
  if (found == sums_.end()) found = sums_.insert(found, {.key = mean.key, .is_share = mean.is_share});
  found->sum += mean.value * weight;
  found->weight += weight;
}

void MetricSums::means(std::vector<Metric>& into) const {
  into.clear();
  for (const Sum& one : sums_)
    if (one.weight > 0) into.push_back({one.key, one.sum / one.weight, one.is_share});
}

void MetricSums::clear() {
  for (Sum& one : sums_) one.sum = one.weight = 0;
}

const MetricSums::Sum* MetricSums::find(std::string_view key) const {
  const auto found = std::find_if(sums_.begin(), sums_.end(), [&](const Sum& one) { return one.key == key; });
  return found == sums_.end() ? nullptr : &*found;
}

double MetricSums::mean(std::string_view key) const {
  const Sum* const found = find(key);
  return found == nullptr || found->weight == 0 ? 0 : found->sum / found->weight;
}

double MetricSums::sum(std::string_view key) const {
  const Sum* const found = find(key);
  return found == nullptr ? 0 : found->sum;
}

double Observation::number(size_t value, int64_t row) const { return nth(values[value], row); }

double Observation::column(std::string_view name, int64_t row) const {
  for (const data::MicroBatch::Numbers& one : streams[0].numbers)
    if (one.name == name) return nth(one.values, row);
  report_bug(__FILE__, __LINE__, "column", std::string(name));
}

double Observation::mean(const std::function<double(int64_t)>& f) const {
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) sum += f(row);
  return sum / static_cast<double>(std::max<int64_t>(1, rows));
}

}  // namespace spillway::train
