#include "report/run_record.h"

#include <algorithm>

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

}  // namespace spillway
