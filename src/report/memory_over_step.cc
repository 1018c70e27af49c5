#include "report/memory_over_step.h"

#include <algorithm>
#include <numeric>

namespace spillway {
namespace {

int64_t total(const ClassBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

}  // namespace

MemoryCurve memory_over_step(const Graph& graph, const Schedule& schedule, Tier tier, size_t points) {
  const std::vector<ClassBytes> usage = usage_over_steps(graph, schedule, tier);
  std::vector<size_t> changes;
  for (size_t step = 0; step < usage.size(); ++step) {
    if (step == 0 || usage[step] != usage[step - 1]) changes.push_back(step);
  }
  MemoryCurve curve;
  const size_t bins = std::min(points, changes.size());
  for (size_t bin = 0; bin < bins; ++bin) {
    const auto begin = changes.begin() + static_cast<ptrdiff_t>(changes.size() * bin / bins);
    const auto end = changes.begin() + static_cast<ptrdiff_t>(changes.size() * (bin + 1) / bins);
    const auto most =
        std::max_element(begin, end, [&](size_t a, size_t b) { return total(usage[a]) < total(usage[b]); });
    curve.steps.push_back(static_cast<int32_t>(*begin));
    curve.bytes.push_back(usage[*most]);
  }
  return curve;
}

}  // namespace spillway
